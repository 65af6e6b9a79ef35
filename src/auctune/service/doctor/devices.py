"""What the nodes can have: cores, memory, and CUDA devices that compute."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from auctune.service.doctor.finding import Finding, ok, warn, wrong
from auctune.service.doctor.installation import Installation

CGROUP = Path("/sys/fs/cgroup")
_MEMORY = Path("/proc/meminfo")
_PROGRAM = ("-P", "-m", "auctune.train.device_trial")
_TRIAL_SECONDS = 80.0
_LITTLE_BYTES = 2 << 30


def look(at: Installation) -> Iterator[Finding]:
    """The CPU, its memory, and each CUDA device; that those in the settings are there."""
    yield _cores()
    yield _memory()
    needs = [(need.device, f"{place}.device") for place, need in at.devices()]
    wanted = [need for need in needs if need[0] != "cpu"]
    if find_spec("torch") is None:
        yield warn("devices", "CUDA is not looked for without torch", "install the extra train")
        return
    trials = try_devices()
    if isinstance(trials, str):
        yield wrong("devices", f"torch does not start: {trials}", "reinstall the extra train")
        return
    yield from judged(trials, wanted)


def try_devices() -> list[dict[str, Any]] | str:
    """What each CUDA device did in a process of its own, or why there is no answer."""
    try:
        ended = subprocess.run(
            [sys.executable, *_PROGRAM], capture_output=True, text=True, timeout=_TRIAL_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_TRIAL_SECONDS:g} s; see nvidia-smi"
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines()
        return lines[-1] if lines else f"exit code {ended.returncode}"
    found: list[dict[str, Any]] = json.loads(ended.stdout)
    return found


def judged(trials: list[dict[str, Any]], wanted: list[tuple[str, str]]) -> Iterator[Finding]:
    """What devices are worth, beside what settings ask for.

    Args:
        trials: of each CUDA device: name, total_bytes, free_bytes, and error, none if it computes.
        wanted: devices in the settings that are no CPU, with their places.
    """
    if not trials:
        yield ok("devices", "no CUDA device")
    for index, trial in enumerate(trials):
        said = f"cuda:{index} {trial['name']}"
        if trial["error"] is not None:
            mend = "see nvidia-smi and dmesg; a reboot or another driver"
            yield wrong("devices", f"{said} does not compute: {trial['error']}", mend)
        else:
            free, total = trial["free_bytes"], trial["total_bytes"]
            yield ok("devices", f"{said}: {_gib(free)} of {_gib(total)} free; computes")
    for device, place in wanted:
        number = re.fullmatch(r"cuda(?::(\d+))?", device)
        if number is None or int(number[1] or 0) >= len(trials):
            said = f"{place} is {device}, which is not there"
            yield wrong("devices", said, f'{place} = "cpu", or a driver for it (nvidia-smi)')


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    share = _quota()
    if share is not None and share < cores:
        mend = "threads of the zones, or the container's CPU limit"
        return warn("devices", f"{cores} CPU cores, held to the time of {share:g}", mend)
    return ok("devices", f"{cores} CPU cores")


def _quota() -> float | None:
    """Cores' worth of time that the control group may use; none: no limit."""
    try:
        quota, period = (CGROUP / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def _memory() -> Finding:
    free = _available_bytes()
    if free < _LITTLE_BYTES:
        return warn("devices", f"{_gib(free)} of memory available", "more memory, or fewer nodes")
    return ok("devices", f"{_gib(free)} of memory available")


def _available_bytes() -> int:
    found = re.search(r"^MemAvailable:\s*(\d+) kB$", _MEMORY.read_text(), re.MULTILINE)
    assert found is not None
    free = int(found[1]) * 1024
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
    except OSError:
        return free
    return free if limit == "max" else min(free, max(0, int(limit) - used))


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
