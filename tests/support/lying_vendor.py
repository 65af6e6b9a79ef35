"""A server on a loopback port that answers as the test says, right or wrong, byte by byte."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Write = Callable[[bytes], Awaitable[None]]
Handler = Callable[[Received, Write], Awaitable[None]]


@contextmanager
def lying_vendor(handler: Handler) -> Iterator[str]:
    """A vendor's address; `handler` writes the whole response, its head included."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        connections = _Connections(handler)
        starting = asyncio.start_server(connections.handle, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(starting, loop).result(600)
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        asyncio.run_coroutine_threadsafe(connections.stop(server), loop).result(600)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Connections:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler
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
                await self._handler(await _read(reader), write)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def stop(self, server: asyncio.Server) -> None:
        server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *fields = head.strip().split("\r\n")
    method, path, _ = line.split(" ")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body)


def head(status: int = 200, extra: str = "") -> bytes:
    """A response's head for a body of any length, which ends with the connection."""
    return f"HTTP/1.1 {status} X\r\nconnection: close\r\n{extra}\r\n".encode()


def answer(body: object, status: int = 200) -> Handler:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def handle(_: Received, write: Write) -> None:
        await write(head(status, f"content-length: {len(data)}\r\n") + data)

    return handle


def offer(**changed: Any) -> dict[str, Any]:
    """A valid offer, but for what is changed."""
    valid = {"decision": "offer", "offer": "o-1", "price": "1.5000"}
    return {**valid, "delay_seconds": 90, "valid_seconds": 600, **changed}
