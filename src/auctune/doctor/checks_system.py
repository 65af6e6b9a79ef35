"""Checks of the machine and of the installed packages: python, extras, devices, kernels, limits.

Third-party packages are imported where they are used, so that a missing or broken one does not
keep the other checks from running.
"""

import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from auctune.doctor.installation import (
    Finding,
    Installation,
    error,
    format_gib,
    installed_version,
    ok,
    warn,
    write_error,
)
from auctune.extras import install_command, pip_install, required_packages
from auctune.files.device_profile import physical_devices

MIN_PYTHON = (3, 11)

EXTRAS = {
    "sim": "simulations",
    "train": "training",
    "service": "auctune serve",
    "spot": "ARIMA forecasts",
    "ray": "clusters",
    "gpu": "bases of 4 bits",
    "experiments": "tasks and estimators of experiments",
}

_CGROUP = Path("/sys/fs/cgroup")
_TRIAL_MODULE = ("-P", "-m", "auctune.train.host")
_TRIAL_SECONDS = 80.0
_LOW_MEMORY_BYTES = 2 << 30

# Each client that follows a stream takes one; child processes, database and logs take dozens.
_FEW_FILES, _ENOUGH_FILES = 256, 4096
_SHARED_MEMORY = Path("/dev/shm")
_SHARED_MEMORY_BYTES = 1 << 30


def check_python(at: Installation) -> Iterator[Finding]:
    """Check the version of this interpreter."""
    yield python_finding(sys.version_info[:2], f"{platform.python_version()} at {sys.executable}")


def python_finding(found: tuple[int, int], message: str) -> Finding:
    """Compare a version of Python with the oldest one that auctune supports."""
    if found >= MIN_PYTHON:
        return ok(message)
    oldest = ".".join(map(str, MIN_PYTHON))
    return error(message, f"install Python {oldest} or later: make setup PYTHON=python{oldest}")


def check_extras(at: Installation) -> Iterator[Finding]:
    """Compare the installed packages with the requirements of auctune and of its extras."""
    known = set(metadata("auctune").get_all("Provides-Extra") or ())
    yield extra_finding("", required_packages())
    for extra in EXTRAS:
        if extra not in known:
            message = f"the installed auctune has no extra [{extra}]"
            yield warn(message, "run make setup, or install the current release of auctune again")
            continue
        yield extra_finding(extra, required_packages(extra))


def extra_finding(extra: str, requirements: list[Requirement]) -> Finding:
    """Check that all requirements of an extra are installed, in versions that they accept."""
    installed = {one.name: installed_version(one.name) for one in requirements}
    missing = [name for name, found in installed.items() if found is None]
    mismatched = [
        f"{one.name} is {installed[one.name]} and must be {one.specifier}"
        for one in _unsatisfied(requirements, installed)
        if one.name not in missing
    ]
    title = f"[{extra}] ({EXTRAS[extra]})" if extra else "the core"
    fix = f"run make setup, or {pip_install(_unsatisfied(requirements, installed))}"
    if mismatched:
        return error(f"{title}: {', '.join(mismatched)}", fix)
    if missing and not extra:
        return error(f"{title} lacks {', '.join(missing)}", fix)
    if missing:
        return warn(f"{title} is not installed: {', '.join(missing)}", fix)
    pinned = [
        f"{one.name} {installed[one.name]}" for one in requirements if "==" in str(one.specifier)
    ]
    return ok(f"{title} is installed{': ' if pinned else ''}{', '.join(pinned)}")


def _unsatisfied(
    requirements: list[Requirement], installed: Mapping[str, str | None]
) -> Iterator[Requirement]:
    for one in requirements:
        found = installed[one.name]
        # A local build such as 2.13.0+cpu counts as that version.
        if found is None or not one.specifier.contains(found, prereleases=True):
            yield one


def check_devices(at: Installation) -> Iterator[Finding]:
    """Check CPU, memory and CUDA devices, and that the devices of the settings exist."""
    yield _cores()
    yield _memory()
    required = [
        (device, f"{place}.device")
        for place, need in at.devices()
        for device in physical_devices(need.device, need.num_devices)
    ]
    if find_spec("torch") is None:
        yield warn("CUDA is not checked without torch", install_command("train"))
        return
    trials = try_devices()
    if isinstance(trials, str):
        yield error(
            f"torch does not start: {trials}", f"{install_command('train')} --force-reinstall"
        )
        return
    yield from device_findings(trials, [need for need in required if need[0] != "cpu"])


def try_devices() -> list[dict[str, Any]] | str:
    """Compute on each CUDA device in a child process; return its results, or why there are none."""
    try:
        ended = subprocess.run(
            [sys.executable, *_TRIAL_MODULE], capture_output=True, text=True, timeout=_TRIAL_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_TRIAL_SECONDS:g} s; see nvidia-smi"
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines()
        return lines[-1] if lines else f"exit code {ended.returncode}"
    trials: list[dict[str, Any]] = json.loads(ended.stdout)
    return trials


def device_findings(
    trials: list[dict[str, Any]], required: list[tuple[str, str]]
) -> Iterator[Finding]:
    """Yield a finding for each CUDA device, and for each device of the settings that is missing.

    `trials` are name, total_bytes, free_bytes and error of each, `required` devices their places.
    """
    if not trials:
        yield ok("no CUDA device")
    for index, trial in enumerate(trials):
        device = f"cuda:{index} {trial['name']}"
        if trial["error"] is not None:
            fix = "see nvidia-smi and dmesg; reboot, or install another driver"
            yield error(f"{device} cannot compute: {trial['error']}", fix)
        else:
            free, total = format_gib(trial["free_bytes"]), format_gib(trial["total_bytes"])
            yield ok(f"{device}: {free} of {total} free; computes")
    for name, place in required:
        number = re.fullmatch(r"cuda(?::(\d+))?", name)
        if number is None or int(number[1] or 0) >= len(trials):
            fix = f'set {place} = "cpu", or install a driver (nvidia-smi)'
            yield error(f"{place} is {name}, which does not exist here", fix)


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    # psutil does not know the limits of a container.
    limits = _read_cgroup("cpu.max").split()
    if len(limits) == 2 and limits[0] != "max":
        quota = int(limits[0]) / int(limits[1])
        if quota < cores:
            message = f"{cores} CPU cores, limited to {quota:g} by the container"
            return warn(
                message, "raise the container's CPU limit, or set fewer threads for the zones"
            )
    return ok(f"{cores} CPU cores")


def _memory() -> Finding:
    import psutil

    available = psutil.virtual_memory().available
    limit, used = _read_cgroup("memory.max"), _read_cgroup("memory.current")
    if limit.isdecimal() and used.isdecimal():
        available = min(available, max(0, int(limit) - int(used)))
    message = f"{format_gib(available)} of memory available"
    if available < _LOW_MEMORY_BYTES:
        return warn(message, "add memory, or configure fewer nodes")
    return ok(message)


def _read_cgroup(name: str) -> str:
    try:
        return (_CGROUP / name).read_text().strip()
    except OSError:
        return ""


def check_kernels(at: Installation) -> Iterator[Finding]:
    """Check that the compiled kernels exist, and that their folder can be written."""
    from auctune.doctor.kernels import missing_parts
    from auctune.numerics import jit

    folder = jit.kernel_folder()
    reason = write_error(folder)
    if reason is not None:
        message = f"{folder} cannot be written ({reason}): each process compiles again"
        yield warn(message, "set NUMBA_CACHE_DIR to a writable folder")
    elif missing := missing_parts():
        names = ", ".join(missing)
        yield ok(f"not compiled yet: {names}; auctune doctor --compile does it, in a minute or so")
    else:
        yield ok(f"compiled in {folder}")


def check_limits(at: Installation) -> Iterator[Finding]:
    """Check the limit on open files, and shared memory if Ray is installed."""
    yield open_files_finding(*resource.getrlimit(resource.RLIMIT_NOFILE))
    if find_spec("ray") is not None and _SHARED_MEMORY.is_dir():
        yield shared_memory_finding(shutil.disk_usage(_SHARED_MEMORY).total)


def open_files_finding(soft: int, hard: int) -> Finding:
    """Check that a process may open enough files; it may raise its limit up to `hard`."""
    if soft == resource.RLIM_INFINITY or soft >= _ENOUGH_FILES:
        return ok(f"{'unlimited' if soft < 0 else f'{soft:,}'} open files")
    if hard == resource.RLIM_INFINITY or hard >= _ENOUGH_FILES:
        fix = f"run ulimit -n {_ENOUGH_FILES}"
    else:
        fix = f"run ulimit -n {hard}, and set LimitNOFILE={_ENOUGH_FILES} in the service's unit"
    message = f"{soft:,} open files; each client that follows a stream takes one"
    return error(message, fix) if soft < _FEW_FILES else warn(message, fix)


def shared_memory_finding(total: int) -> Finding:
    """Check that Ray's object store fits into shared memory of `total` bytes."""
    message = f"{total / (1 << 30):.2f} GiB of shared memory"
    if total >= _SHARED_MEMORY_BYTES:
        return ok(message)
    fix = "run docker with --shm-size=2g, or mount -o remount,size=2G /dev/shm"
    return warn(f"{message}: Ray would keep objects on disk", fix)
