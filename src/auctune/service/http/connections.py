"""Limits on connections: their number, header size, pipelining and timeouts of slow clients.

uvicorn's httptools protocol limits neither the size of headers nor the time that a request takes.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from auctune.service.http.middleware import LATE, is_upload

MAX_HEADER_BYTES = 64 * 1024
MAX_HEADERS = 100
DISCARDED_BYTES = 256 * 1024
"""Bytes of a body that are read and dropped after the response."""
_CHECK_TICKS = 10
MAX_PIPELINED = 16
_STREAM_END_SECONDS = 1.0


class _TooManyError(Exception):
    """A client has pipelined too many requests, or sent too many headers."""


MAX_CONNECTIONS = 4096
"""Connections of all clients together."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the connections of a server.

    Attributes:
        connections: maximum number. One more closes the connection that has waited longest for a
            late response (see `LateResponses`); if there is none, for a request; if all have one in
            progress, for a body; if none waits for one, for its client to read; or else the newest.
        head_seconds: timeout from the start of a connection, or the end of a response, to the end
            of the next request's headers.
        body_seconds: timeout from there to the end of the body, except for uploads.
        idle_seconds: timeout between two chunks of an upload, and for a client that does not read
            its response.
    """

    connections: int = MAX_CONNECTIONS
    head_seconds: float = 20.0
    body_seconds: float = 30.0
    idle_seconds: float = 60.0


class OpenConnections(ServerState):
    """Open connections of a server.

    Attributes:
        late: connections whose response waits, as their client sends too much; longest wait first.
        waiting: connections whose client has to send a request, longest wait first.
        receiving: connections whose client has to send the rest of a body, longest wait first.
        unread: connections whose client has to read what is sent, longest wait first.
        is_flooding: whether an address sends so much without a key that it gets no connections.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        super().__init__()
        self.limits = limits
        self.is_flooding: Callable[[str], bool] = lambda _address: False
        self.late: dict[Connection, None] = {}
        self.waiting: dict[Connection, None] = {}
        self.receiving: dict[Connection, None] = {}
        self.unread: dict[Connection, None] = {}

    def check_timeouts(self) -> None:
        for connection in list(self.connections):
            cast(Connection, connection).check_timeout()

    def make_room(self, newest: "Connection") -> None:
        """Close a connection if there are too many: the newest if no other one's client is slow.

        The newest has had no time to send a request. If it were closed first, clients that hold all
        connections with unfinished bodies or unread answers would lock out all others.
        """
        if len(self.connections) > self.limits.connections:
            idle = chain(self.late, self.waiting, self.receiving, self.unread)
            next((one for one in idle if one is not newest), newest).abort()


class LimitedServer(uvicorn.Server):
    """uvicorn server with limits on its connections, which are checked once a second.

    Attributes:
        end_streams: called a second before the requests that a graceful shutdown still waits for
            are cancelled: a stream ends with an error then, and not like a complete one.
    """

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits | None = None) -> None:
        # WebSocket connections would have no limits; the service does not use them.
        config.http, config.ws = Connection, "none"
        super().__init__(config)
        self.server_state: OpenConnections = OpenConnections(limits or ConnectionLimits())
        self.end_streams: Callable[[], None] = lambda: None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in list(self.server_state.late):
            connection.stop_waiting()
        grace = (self.config.timeout_graceful_shutdown or 0) - _STREAM_END_SECONDS
        timer = asyncio.get_running_loop().call_later(max(0.0, grace), lambda: self.end_streams())
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals are the service's: uvicorn would raise them again before the service is closed.
        yield

    async def on_tick(self, counter: int) -> bool:
        if counter % _CHECK_TICKS == 0:
            self.server_state.check_timeouts()
        return await super().on_tick(counter)


class Connection(HttpToolsProtocol):
    """Connection that is closed if its client sends too much or is too slow.

    Data are checked after each read, so headers may exceed the limit by some 100 kB.
    """

    # Bytes since the start of a request, or the last byte of a body.
    _held = 0
    _discarded = 0
    _is_in_head = _is_in_body = _is_upload = False

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: OpenConnections,
        app_state: dict[str, Any],
        _loop: Any = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._open = server_state
        self._now: Callable[[], float] = self.loop.time
        # Start of the current timeout.
        self._since = self._now()
        # The client has left, or the service stops.
        self._is_over = asyncio.Event()
        self._chunks: list[bytes] = []
        # The request that is served; of several pipelined ones `cycle` is the newest.
        self._served: RequestResponseCycle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.client is not None and self._open.is_flooding(self.client[0]):
            # This costs a tenth of a request and its response.
            self.abort()
            return
        self._open.waiting[self] = None
        self._open.make_room(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self.stop_waiting()
        super().connection_lost(exc)
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True
            self._served.message_event.set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Serve a request, for which a connection that is being closed is a client that left.

        uvloop raises an error for each write to one.
        """
        self._served = cycle

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            async def receive_open() -> Any:
                cycle.disconnected |= self.transport.is_closing()
                return await receive()

            async def send_open(message: Any) -> None:
                cycle.disconnected |= self.transport.is_closing()
                await send(message)
                if cycle.response_complete:
                    # The request is open until its client has read what is not sent yet.
                    await self.flow.drain()

            await app(scope, receive_open, send_open)

        # A pipelined request is begun at the end of the one before, but is no work of that one.
        Context().run(super()._start_asgi_task, cycle, serve)

    def abort(self) -> None:
        self._forget()
        self.transport.abort()

    def check_timeout(self) -> None:
        limits, late = self._open.limits, self._now() - self._since
        if self.transport.is_closing() or self.flow.write_paused:
            if late > limits.idle_seconds:
                self.abort()
        elif self.flow.read_paused:
            # The service, not the client, is slow.
            self._since = self._now()
        elif self._is_in_body:
            if late > (limits.idle_seconds if self._is_upload else limits.body_seconds):
                self._close_late("The request body")
        elif self in self._open.waiting and late > limits.head_seconds:
            self._close_late("The request header")

    def data_received(self, data: bytes) -> None:
        self._held += len(data)
        super().data_received(data)
        self._take_body()
        if self._held <= MAX_HEADER_BYTES or self.transport.is_closing():
            return
        if self._is_in_head:
            self.send_400_response(f"The request headers have more than {MAX_HEADER_BYTES} bytes.")
        else:
            # A response may be in progress: no second one is sent.
            self.transport.close()

    def pause_writing(self) -> None:
        self._since = self._now()
        self._open.unread[self] = None
        super().pause_writing()

    def resume_writing(self) -> None:
        self._since = self._now()
        self._open.unread.pop(self, None)
        super().resume_writing()

    def on_message_begin(self) -> None:
        # All requests of one read are parsed before any connection is served again.
        if len(self.pipeline) >= MAX_PIPELINED:
            raise _TooManyError
        self._is_in_head, self._held = True, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Each takes a hundred bytes and more, however short.
        if len(self.headers) >= MAX_HEADERS:
            raise _TooManyError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head, self._is_in_body, self._discarded = False, True, 0
        self._since = self._now()
        self._open.waiting.pop(self, None)
        self._open.receiving[self] = None
        super().on_headers_complete()
        self.scope[LATE] = self._wait_late  # type: ignore[literal-required]
        self._is_upload = is_upload(self.scope)

    def on_body(self, body: bytes) -> None:
        self._held = 0
        self._chunks.append(body)

    def _take_body(self) -> None:
        """Pass on all chunks of a body that arrived together.

        A client can send chunks of one byte. uvicorn copies its buffer for each of them, which
        blocked all other requests for seconds.
        """
        if not self._chunks or self.transport.is_closing():
            return
        body = b"".join(self._chunks)
        self._chunks.clear()
        super().on_body(body)
        if self._is_upload:
            self._since = self._now()
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > DISCARDED_BYTES:
                self.transport.close()

    def on_message_complete(self) -> None:
        self._take_body()
        self._held, self._is_in_body = 0, False
        self._since = self._now()
        self._open.receiving.pop(self, None)
        super().on_message_complete()
        self._wait_if_answered()

    def on_response_complete(self) -> None:
        self._since = self._now()
        super().on_response_complete()
        self._wait_if_answered()

    def _wait_if_answered(self) -> None:
        """Start to wait for the next request if the last one is done."""
        is_answered = self.cycle is not None and self.cycle.response_complete
        if is_answered and not self._is_in_body and not self.pipeline:
            self._open.waiting[self] = None

    def stop_waiting(self) -> None:
        """End the wait of a late response."""
        self._is_over.set()

    async def _wait_late(self, seconds: float) -> None:
        """Wait, at most until the client leaves; what it sends meanwhile is not read."""
        self._open.late[self] = None
        try:
            async with asyncio.timeout(seconds):
                await self._is_over.wait()
        except TimeoutError:
            pass
        finally:
            self._open.late.pop(self, None)

    def _close_late(self, what: str) -> None:
        is_answering = self.cycle is not None and (
            self.cycle.response_started and not self.cycle.response_complete
        )
        if (self._is_in_head or self._is_in_body) and not is_answering:
            message = f"{what} took too long."
            head = "HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\n"
            head += f"content-length: {len(message)}\r\nconnection: close\r\n\r\n"
            self.transport.write((head + message).encode())
        self._since = self._now()
        self.transport.close()

    def _forget(self) -> None:
        for clients in (
            self._open.late,
            self._open.waiting,
            self._open.receiving,
            self._open.unread,
        ):
            clients.pop(self, None)
