"""Checks of the network: port, vendors, ray.

Third-party packages are imported where they are used, so that a missing or broken one does not
keep the other checks from running.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from auctune.doctor.checks_storage import lock_holder
from auctune.doctor.installation import Finding, Installation, error, ok, warn
from auctune.engine.file_lock import NODES_LOCK
from auctune.service.listening import join_address, listen

_HEALTH_SECONDS = 3.0
_PORT_FIX = "set port in auctune.toml, or run auctune serve --port PORT"

_VENDOR_SECONDS = 5.0

_RAY_CONNECT_SECONDS = 3.0
_RAY_HEALTH_SECONDS = 15.0
_RAY_FIX = "set RAY_ADDRESS to HOST:PORT of a running cluster (ray start --head)"


def check_port(at: Installation) -> Iterator[Finding]:
    """Check that the port is free, or that the service of this data folder listens there."""
    assert at.settings is not None
    host, port = at.settings.host, at.settings.port
    yield ok("0: any free port") if port == 0 else _bind_finding(host, port, at)


def _bind_finding(host: str, port: int, at: Installation) -> Finding:
    try:
        listen(host, port).close()
    except OSError as caught:
        # Without the address that create_server adds.
        return _taken_finding(host, port, at, str(caught.strerror).partition(" (")[0])
    noted = _noted_url(at.url_file)
    if _is_at(noted, port):
        fix = "run auctune serve: the service continues from its log"
        return warn(f"the service of this data folder, at {noted}, no longer runs", fix)
    return ok(f"{join_address(host, port)} is free")


def _taken_finding(host: str, port: int, at: Installation, reason: str) -> Finding:
    address, listener = join_address(host, port), _listener(port)
    answers, noted = answers_as_auctune(f"http://{address}"), _noted_url(at.url_file)
    if answers and _is_at(noted, port):
        return ok(f"in use by the service of this data folder, at {noted}")
    if listener.startswith(f"process {lock_holder(at.data / NODES_LOCK)},"):
        message = f"{address} is in use by the service of this data folder, which is starting"
        return warn(message, "wait until it has started")
    if not answers:
        return error(f"cannot listen at {address} ({reason}; {listener})", _PORT_FIX)
    message = f"{address} is in use by an auctune service of another data folder ({listener})"
    return error(message, f"use its --data, or {_PORT_FIX}")


def _noted_url(url_file: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        return url_file.read_text().strip() or None
    return None


def _is_at(url: str | None, port: int) -> bool:
    return url is not None and url.endswith(f":{port}")


def answers_as_auctune(url: str) -> bool:
    """Return whether the health endpoint of an auctune service answers at a URL."""
    import httpx2

    try:
        # Not through a proxy: its answer says nothing about this machine.
        answer = httpx2.get(f"{url}/health", timeout=_HEALTH_SECONDS, trust_env=False)
        return answer.status_code == 200 and "status" in answer.json()
    except (httpx2.HTTPError, ValueError, AttributeError):
        return False


def _listener(port: int) -> str:
    """Describe the process that listens at a port, as far as this user may see it."""
    import psutil

    listening = [
        connection
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    ]
    if not listening:
        return "no process listens there"
    for connection in listening:
        if connection.pid is not None:
            with suppress(psutil.NoSuchProcess):
                return f"process {connection.pid}, {psutil.Process(connection.pid).name()}"
    return "a process of another user"


def check_vendors(at: Installation) -> Iterator[Finding]:
    """Check that something answers at the URL of each vendor, if they may be contacted."""
    urls = {name: url for zone in at.zones for name, url in zone.requirements().vendors.items()}
    if not urls:
        yield ok("no external vendor")
    elif not at.online:
        yield ok(f"{len(urls)} external, not contacted: --online contacts them")
    else:
        for name, url in urls.items():
            yield _vendor_finding(name, url)


def _vendor_finding(name: str, url: str) -> Finding:
    import httpx2

    try:
        # Any status will do: the request has no token.
        status = httpx2.get(url, timeout=_VENDOR_SECONDS).status_code
    except httpx2.HTTPError as caught:
        message = f"{name} at {url} does not answer ({type(caught).__name__}: {caught})"
        return warn(
            message, "correct url in zones.vendors, or start the vendor; auctions run without it"
        )
    return ok(f"{name} at {url} answers ({status})")


def check_ray(at: Installation) -> Iterator[Finding]:
    """Check that Ray is installed, and that the cluster of RAY_ADDRESS answers; start none."""
    if find_spec("ray") is None:
        yield ok("not installed: nodes on this machine only")
        return
    address = os.environ.get("RAY_ADDRESS", "")
    if not address or address in ("auto", "local"):
        yield ok("installed; RAY_ADDRESS names no cluster, so none is contacted")
        return
    yield cluster_finding(address)


def cluster_finding(address: str) -> Finding:
    """Check that the head of a Ray cluster answers at HOST:PORT."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "//" in host:
        return warn(f"RAY_ADDRESS is {address!r}, not HOST:PORT: not contacted", _RAY_FIX)
    try:
        socket.create_connection(
            (host.strip("[]"), int(port)), timeout=_RAY_CONNECT_SECONDS
        ).close()
    except OSError as caught:
        return error(f"nothing answers at {address} ({caught.strerror or caught})", _RAY_FIX)
    if _is_healthy(address):
        return ok(f"the head of a cluster answers at {address}")
    message = f"the process at {address} is not the head of a cluster of this Ray version"
    return error(message, _RAY_FIX)


def _is_healthy(address: str) -> bool:
    command = ("-P", "-m", "ray.scripts.scripts", "health-check", "--address", address)
    try:
        ended = subprocess.run(
            [sys.executable, *command], capture_output=True, timeout=_RAY_HEALTH_SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0
