"""Ray: its package, and the cluster of RAY_ADDRESS. None is started."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from auctune.service.doctor.finding import Finding, ok, warn, wrong
from auctune.service.doctor.installation import Installation

_CONNECT_SECONDS = 3.0
_HEALTH_SECONDS = 15.0
_MEND = "RAY_ADDRESS=HOST:PORT of a cluster that runs: ray start --head"


def look(at: Installation) -> Iterator[Finding]:
    """Whether Ray can be used, and the cluster that is named answers."""
    if find_spec("ray") is None:
        yield ok("ray", "not installed: nodes on this machine alone")
        return
    address = os.environ.get("RAY_ADDRESS", "")
    if not address or address in ("auto", "local"):
        yield ok("ray", "installed; RAY_ADDRESS names no cluster: none is asked")
        return
    yield answering(address)


def answering(address: str) -> Finding:
    """Whether a cluster's head answers at HOST:PORT, as Ray itself sees it."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "//" in host:
        return warn("ray", f"RAY_ADDRESS is {address!r}, not HOST:PORT: not asked", _MEND)
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        return wrong("ray", f"nothing answers at {address} ({error.strerror or error})", _MEND)
    if _is_healthy(address):
        return ok("ray", f"a cluster's head answers at {address}")
    return wrong("ray", f"what listens at {address} is no head of this release of Ray", _MEND)


def _is_healthy(address: str) -> bool:
    program = ("-P", "-m", "ray.scripts.scripts", "health-check", "--address", address)
    try:
        ended = subprocess.run(
            [sys.executable, *program], capture_output=True, timeout=_HEALTH_SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0
