"""A server on a loopback port that answers as the test says, right or wrong, byte by byte."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from auctune.service.vendors import Secret
from auctune.service.vendors.signature import SIGNATURE, sign_answer


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Write = Callable[[bytes], Awaitable[None]]
Lie = Callable[[Asked, Write], Awaitable[None]]


@contextmanager
def lying_vendor(lie: Lie) -> Iterator[str]:
    """A vendor's address; `lie` writes the whole answer, its head included."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        handler = _Handler(lie)
        starting = asyncio.start_server(handler.handle, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(starting, loop).result(10)
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        asyncio.run_coroutine_threadsafe(handler.stop(server), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Handler:
    def __init__(self, lie: Lie) -> None:
        self._lie = lie
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)

        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._lie(await _read(reader), write)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def stop(self, server: asyncio.Server) -> None:
        server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *fields = head.strip().split("\r\n")
    method, path, _ = line.split(" ")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body)


def signed_head(
    secret: Secret,
    asked: Asked,
    digest: str,
    status: int = 200,
    now: float | None = None,
    extra: str = "",
) -> bytes:
    """An answer's head with a right signature for a body with this digest, of any length."""
    moment = time.time() if now is None else now
    signed = sign_answer(secret, status, digest, asked.headers[SIGNATURE], moment)
    fields = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
    return f"HTTP/1.1 {status} X\r\nconnection: close\r\n{fields}{extra}\r\n".encode()


def answer(secret: Secret, body: object, status: int = 200) -> Lie:
    """A right answer with this body, bytes or JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def lie(asked: Asked, write: Write) -> None:
        await write(signed_head(secret, asked, sha256(data).hexdigest(), status) + data)

    return lie


def offer(**changed: Any) -> dict[str, Any]:
    """A good offer, but for what is changed."""
    good = {"decision": "offer", "offer": "o-1", "price": "1.5000"}
    return {**good, "delay_seconds": 90, "valid_seconds": 600, **changed}
