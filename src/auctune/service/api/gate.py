"""What every request passes: its size is limited, its answer is named, counted and logged.

Nothing of a body, a query or a header is logged, and of a path only its pattern: what users name
does not get into logs.
"""

import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import structlog

from auctune.service.api.errors import CLOSE, answer_error
from auctune.service.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_BYTES = 1 << 20
UPLOADS = frozenset(("/v1/files", "/page/files"))

_log = structlog.get_logger("auctune.requests")


class TooLongError(Exception):
    """A body is longer than any that is understood."""


class Gate:
    """In front of an app.

    Args:
        app: behind.
        metrics: told of answers.
    """

    def __init__(self, app: App, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, name = time.perf_counter(), secrets.token_hex(8)
        status, is_stream = 500, False

        async def say(message: Message) -> None:
            nonlocal status, is_stream
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", ()))
                is_stream = any(
                    key == b"content-type" and value.startswith(b"text/event-stream")
                    for key, value in headers
                )
                message = {**message, "headers": [*headers, (b"x-request-id", name.encode())]}
            await send(message)

        # Uploads are limited where they are written, as they stream.
        limited = receive if scope["path"] in UPLOADS else _limited(receive)
        try:
            await self._app(scope, limited, say)
        except TooLongError:
            message = f"the body has more than {BODY_BYTES} bytes"
            await answer_error(413, message, "too_large", None, CLOSE)(scope, receive, say)
        finally:
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "-")
            self._metrics.answered(route, scope["method"], status, None if is_stream else seconds)
            _log.info(
                "request",
                id=name,
                method=scope["method"],
                route=route,
                status=status,
                ms=round(seconds * 1000, 1),
                who=scope.get("auctune.who"),
            )


def _limited(receive: Receive) -> Receive:
    left = BODY_BYTES

    async def counted() -> Message:
        nonlocal left
        message = await receive()
        if message["type"] == "http.request":
            left -= len(message.get("body", b""))
            if left < 0:
                raise TooLongError
        return message

    return counted
