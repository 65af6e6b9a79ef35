"""Limits of connections: header size, deadlines for slow clients, number.

uvicorn takes heads of any length from anybody, and waits for the rest of a request without end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from auctune.domain import InputError
from auctune.service.http.middleware import UPLOADS

MAX_HEADER_BYTES = 64 * 1024
DISCARDED_BYTES = 256 * 1024
"""What is read, and dropped, of the rest of a body after its answer."""
_LOOK_TICKS = 10
_MAX_PIPELINED = 16


class _PipelineError(Exception):
    """A client sends more requests than it may before it has been answered."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of all connections together, and of each.

    Attributes:
        connections: open at once. Where one more comes, the other one that has kept the service
            waiting longest for a request is ended, or if there is none, for a body.
        head_seconds: from the beginning of a connection, or the end of an answer, to the end of a
            request's head.
        body_seconds: from there to the end of its body, unless it is an upload.
        idle_seconds: between two pieces of an upload, or while a client reads nothing of an answer.
    """

    connections: int = 4096
    head_seconds: float = 20.0
    body_seconds: float = 30.0
    idle_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.connections < 1:
            raise InputError("connections", f"{self.connections}", "a whole number >= 1")
        for name in ("head_seconds", "body_seconds", "idle_seconds"):
            if not getattr(self, name) > 0:
                raise InputError(name, f"{getattr(self, name)}", "seconds > 0")


class OpenConnections(ServerState):
    """The connections of one server.

    Args:
        limits: of them.

    Attributes:
        waiting: those that owe a request, the longest waiting first.
        receiving: those that owe the rest of a body, likewise.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        super().__init__()
        self.limits = limits
        self.waiting: dict[Connection, None] = {}
        self.receiving: dict[Connection, None] = {}

    def look(self) -> None:
        """End connections whose clients are too slow."""
        for connection in list(self.connections):
            cast(Connection, connection).look()

    def make_room(self, newest: "Connection") -> None:
        """End a connection other than the newest if there are too many.

        The newest has had no time to send a request: if it could be ended, clients that hold all
        connections with unfinished bodies would shut everybody else out.
        """
        if len(self.connections) > self.limits.connections:
            owing = chain(self.waiting, self.receiving)
            slowest = next((one for one in owing if one is not newest), None)
            if slowest is not None:
                slowest.abort()


class LimitedServer(uvicorn.Server):
    """A server of `Connection`s; uvicorn's own tick looks for slow clients.

    Args:
        config: of uvicorn; its protocols are set here.
        limits: of connections.
    """

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits | None = None) -> None:
        # Nobody speaks WebSocket, whose connections would know no limits.
        config.http, config.ws = Connection, "none"
        super().__init__(config)
        self.server_state: OpenConnections = OpenConnections(limits or ConnectionLimits())

    async def on_tick(self, counter: int) -> bool:
        """Look after connections, once a second."""
        if counter % _LOOK_TICKS == 0:
            self.server_state.look()
        return await super().on_tick(counter)


class Connection(HttpToolsProtocol):
    """A connection that is ended where its client sends too much, or takes too long.

    What arrives together is looked at together: of a head, some hundred kilobytes may come through.
    """

    # Bytes since the last byte of a body, or the beginning of a request.
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
        # When the client last did what is waited for, or it was not the client's turn.
        self._since = self._now()
        self._pieces: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        """A client is there."""
        super().connection_made(transport)
        self._open.waiting[self] = None
        self._open.make_room(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._forget()
        super().connection_lost(exc)

    def abort(self) -> None:
        """End it at once, whatever has not been sent."""
        self._forget()
        self.transport.abort()

    def look(self) -> None:
        """End it if its client is too slow."""
        limits, late = self._open.limits, self._now() - self._since
        if self.transport.is_closing() or self.flow.write_paused:
            if late > limits.idle_seconds:
                self.abort()
        elif self.flow.read_paused:
            # The next piece waits for the service.
            self._since = self._now()
        elif self._is_in_body:
            if late > (limits.idle_seconds if self._is_upload else limits.body_seconds):
                self._end_late("The body of the request")
        elif self in self._open.waiting and late > limits.head_seconds:
            self._end_late("The head of the request")

    def data_received(self, data: bytes) -> None:
        """Take in what came."""
        self._held += len(data)
        super().data_received(data)
        self._take_body()
        if self._held <= MAX_HEADER_BYTES or self.transport.is_closing():
            return
        if self._is_in_head:
            self.send_400_response(
                f"The head of the request has more than {MAX_HEADER_BYTES} bytes."
            )
        else:
            # An answer may be on its way.
            self.transport.close()

    def pause_writing(self) -> None:
        """The client does not read what was sent."""
        self._since = self._now()
        super().pause_writing()

    def resume_writing(self) -> None:
        """It does again."""
        self._since = self._now()
        super().resume_writing()

    def on_message_begin(self) -> None:
        """A request begins."""
        # All that arrive together are parsed before any is answered, on this connection or others.
        if len(self.pipeline) >= _MAX_PIPELINED:
            raise _PipelineError
        self._is_in_head, self._held = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._is_in_head, self._is_in_body, self._discarded = False, True, 0
        self._since = self._now()
        self._open.waiting.pop(self, None)
        self._open.receiving[self] = None
        super().on_headers_complete()
        self._is_upload = self.scope.get("path") in UPLOADS

    def on_body(self, body: bytes) -> None:
        """Some of its body is there."""
        self._held = 0
        self._pieces.append(body)

    def _take_body(self) -> None:
        """Pass on what has arrived of a body, at once.

        A body may come in chunks of a byte each. uvicorn copies all that it holds of a body for
        each of them, which stopped all other requests for seconds.
        """
        if not self._pieces or self.transport.is_closing():
            return
        body = b"".join(self._pieces)
        self._pieces.clear()
        super().on_body(body)
        if self._is_upload:
            self._since = self._now()
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > DISCARDED_BYTES:
                self.transport.close()

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._take_body()
        self._held, self._is_in_body = 0, False
        self._since = self._now()
        self._open.receiving.pop(self, None)
        super().on_message_complete()
        self._wait_if_answered()

    def on_response_complete(self) -> None:
        """It was answered."""
        self._since = self._now()
        super().on_response_complete()
        self._wait_if_answered()

    def _wait_if_answered(self) -> None:
        """The next request is the client's turn."""
        is_answered = self.cycle is not None and self.cycle.response_complete
        if is_answered and not self._is_in_body and not self.pipeline:
            self._open.waiting[self] = None

    def _end_late(self, what: str) -> None:
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
        self._open.waiting.pop(self, None)
        self._open.receiving.pop(self, None)
