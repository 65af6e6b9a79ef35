"""`auctune serve`: everything opened, served, and closed again."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn
from prometheus_client import CollectorRegistry

from auctune.domain import InputError
from auctune.run.base_facts import BaseFacts, Report
from auctune.service.access.directory import Directory
from auctune.service.access.key import Role
from auctune.service.api.app import make_app
from auctune.service.opening import Place, learn_zone, open_market
from auctune.service.settings.service_file import ServiceFile
from auctune.service.stopping import Stop, StoppableServer
from auctune.service.store import open_store

FIRST_KEY = "first-key"
# Threads take turns so often, in seconds: with Python's 5 ms a busy one holds the others up.
_TURN = 0.0005


def serve(
    file: ServiceFile,
    place: Place,
    report: Report,
    ready: Callable[[str, str | None], None],
) -> None:
    """Serve until asked to stop.

    Args:
        file: the settings.
        place: of data and cache.
        report: told how far opening is.
        ready: told the URL, and the first key if it was made just now.

    Raises:
        InputError: if something in the settings or the folder is wrong, or the port is taken.
    """
    sys.setswitchinterval(_TURN)
    place.data.mkdir(parents=True, exist_ok=True)
    # Whether another service is at work in the folder says more than that its port is taken.
    with open_store(file.database or place.data) as store, _bind(file.host, file.port) as listening:
        facts = {zone.name: learn_zone(zone, place, report) for zone in file.zones}
        report("opening the market", 0.0)
        asyncio.run(_serve(file, facts, store, place, listening, ready))


async def _serve(
    file: ServiceFile,
    facts: dict[str, dict[str, BaseFacts]],
    store: object,
    place: Place,
    listening: socket.socket,
    ready: Callable[[str, str | None], None],
) -> None:
    stop = Stop()
    opened = await open_market(file, facts, store, place)  # type: ignore[arg-type]
    try:
        key = await _first_key(opened.market.directory, place.data)
        await opened.start()
        config = uvicorn.Config(
            make_app(opened.market, CollectorRegistry()),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=5,
            server_header=False,
        )
        server = StoppableServer(config)
        stop.of(server)
        host, port = listening.getsockname()[:2]
        ready(f"http://{host}:{port}", key)
        await server.serve(sockets=[listening])
    finally:
        await opened.close()


async def _first_key(directory: Directory, data: Path) -> str | None:
    """An operator's key, made if there is none at all; only then it is told."""
    if not directory.is_empty:
        return None
    await directory.put_user("operator", None, None)
    _, made = await directory.add_key("operator", Role.OPERATOR, "first key")
    path = data / FIRST_KEY
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(made.secret + "\n")
    return made.secret


def _bind(host: str, port: int) -> socket.socket:
    """The port, before anything takes long."""
    try:
        return socket.create_server((host, port), reuse_port=False, backlog=2048)
    except OSError as error:
        raise InputError(
            f"{host}:{port}", f"cannot be listened at ({error.strerror})", "a free port"
        ) from None
