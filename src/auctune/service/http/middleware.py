"""Middleware of every request: request id, size limit, metrics and access log.

Nothing of a body, a query or a header is logged, and of a path only its pattern: what users name
does not get into logs.
"""

import secrets
import time

import structlog
from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from auctune.service.accounts.limits import QuotaExceededError
from auctune.service.http.auth import authenticate
from auctune.service.http.errors import CLOSE_CONNECTION, ApiError, error_response
from auctune.service.service import Service

UPLOADS = frozenset(("/v1/files", "/page/files"))
SMALL_BYTES = 16 * 1024
LARGE_BYTES = 256 * 1024
"""A request for a job may name a thousand sites."""
_LARGE = frozenset(("/v1/fine_tuning/jobs", "/v1/quotes"))
# Of an upload, beside its file.
FRAME_BYTES = 64 * 1024
_PRIVATE = ("/v1/", "/metrics")
_SAFE = {b"x-content-type-options": b"nosniff", b"cache-control": b"no-store"}

_log = structlog.get_logger("auctune.requests")


class RequestMiddleware:
    """In front of an app: keys, rates and sizes are checked before anything of a body is read.

    Args:
        app: behind.
        service: the service.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

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
                there = {key.lower() for key, _ in headers}
                headers += [pair for pair in _SAFE.items() if pair[0] not in there]
                message = {**message, "headers": [*headers, (b"x-request-id", name.encode())]}
            await send(message)

        try:
            await self._pass(scope, receive, say)
        finally:
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "-")
            self._service.metrics.observe_request(
                route, scope["method"], status, None if is_stream else seconds
            )
            _log.info(
                "request",
                id=name,
                method=scope["method"],
                route=route,
                status=status,
                ms=round(seconds * 1000, 1),
                who=scope.get("auctune.who"),
            )

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        limit = self._limit(path)
        limited, answered = _limited(scope, receive, send, limit)
        try:
            if path.startswith(_PRIVATE):
                who = authenticate(scope, self._service)
                # Uploads and the page say this in their own words.
                if path not in UPLOADS and _announced(scope) > limit:
                    raise _too_long(limit)
                with self._service.requests.acquire(who.key):
                    await self._app(scope, limited, answered)
            else:
                await self._app(scope, limited, answered)
        except ApiError as error:
            await _refusal(error)(scope, receive, send)
        except QuotaExceededError as error:
            await error_response(429, str(error), "limit_reached", None, CLOSE_CONNECTION)(
                scope, receive, send
            )

    def _limit(self, path: str) -> int:
        """Return how many bytes a body has at most."""
        if path in UPLOADS:
            return self._service.library.limits.upload_bytes + FRAME_BYTES
        if path in _LARGE or path.startswith("/page/"):
            return LARGE_BYTES
        return SMALL_BYTES


def _refusal(error: ApiError) -> Response:
    # The rest of the body is not waited for.
    headers = {**(error.headers or {}), **CLOSE_CONNECTION}
    return error_response(error.status, error.message, error.code, error.param, headers)


def _announced(scope: Scope) -> int:
    """Return how long a request says that its body is; 0 if it does not."""
    found = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(found) if found.isdigit() and len(found) < 19 else 0


def _too_long(limit: int) -> ApiError:
    return ApiError(
        413, f"the body has more than {limit} bytes", "too_large", None, CLOSE_CONNECTION
    )


def _limited(scope: Scope, receive: Receive, send: Send, limit: int) -> tuple[Receive, Send]:
    """Return what reads a body of so many bytes at most, and what answers 413 to a longer one."""
    left, is_refused = limit, False

    async def counted() -> Message:
        nonlocal left
        message = await receive()
        if message["type"] == "http.request":
            left -= len(message.get("body", b""))
            if left < 0:
                raise _too_long(limit)
        return message

    async def answered(message: Message) -> None:
        nonlocal is_refused
        # FastAPI answers 400 to whatever breaks off the body that it parses.
        if left < 0 and message["type"] == "http.response.start" and message["status"] != 413:
            is_refused = True
            await _refusal(_too_long(limit))(scope, receive, send)
        elif not is_refused:
            await send(message)

    return counted, answered
