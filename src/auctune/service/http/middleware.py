"""Middleware of every request: request id, size limit, fair turn, use, metrics and access log.

Logs contain no bodies, queries, headers or names that users choose; only the pattern of a path.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Mapping

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from auctune.service.accounts.limits import LimitReachedError, client_network
from auctune.service.datasets.repairer import VENDOR_ROOT
from auctune.service.fair_queue import BUFFERED_BYTES, RequestScope, Timed, Use, request_scope
from auctune.service.http.errors import (
    CLOSE_CONNECTION,
    RETRY,
    UNAVAILABLE,
    ApiError,
    to_api_error,
)
from auctune.service.http.requests import KEY, authenticate
from auctune.service.service import Service

UPLOADS = frozenset(("/v1/files", "/page/files"))
SIGN_IN = "/page/sign-in"
LATE = "auctune.late"
"""In a scope: waits for so many seconds, and has its connection closed first for others."""
SMALL_BYTES = 16 * 1024
LARGE_BYTES = 256 * 1024
"""Limit for requests for jobs, which can name 1,000 sites, and for prompts."""
_LARGE = frozenset(
    ("/v1/fine_tuning/jobs", "/v1/quotes", "/v1/chat/completions", "/v1/completions")
)
FORM_BYTES = 64 * 1024
"""Room for the form around an uploaded file."""
MAX_STEP_SECONDS = 0.05
"""For longer no route holds the event loop at once: all other requests wait meanwhile."""
# Starlette merges ranges on the event loop, in a time that grows with the square of their number.
_MAX_RANGES = 8
_PRIVATE = ("/v1/", "/metrics")
_PROBES = ("/health", "/ready")
_READS = ("GET", "HEAD", "OPTIONS")
_SAFE = {b"x-content-type-options": b"nosniff", b"cache-control": b"no-store"}

_log = structlog.get_logger("auctune.requests")


class RequestMiddleware:
    """Checks key, rate and size of each request before its body is read."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # No secret, and so no system call, in which other threads take the interpreter.
        start, request_id = time.perf_counter(), f"{random.getrandbits(64):016x}"
        status, is_stream, has_begun = 500, False, False
        seconds: float | None = None
        request, is_stopping = RequestScope(self._service.reads), False

        async def send_with_headers(message: Message) -> None:
            nonlocal start, status, is_stream, has_begun, seconds
            if message["type"] == "http.response.start":
                # What has come to the gate is in time: that bounds it.
                if request.user is None and not is_stopping:
                    start += await self._delay_response(scope, message["status"])
                status, has_begun = message["status"], True
                # Its client may read slowly, and is not refused in the midst of a response.
                request.leave_gate()
                request.check_unsent = None
                headers = list(message.get("headers", ()))
                is_stream = any(
                    key == b"content-type" and value.startswith(b"text/event-stream")
                    for key, value in headers
                )
                present = {key.lower() for key, _ in headers}
                headers += [pair for pair in _SAFE.items() if pair[0] not in present]
                headers.append((b"x-request-id", request_id.encode()))
                message = {**message, "headers": headers}
                await send(message)
            else:
                size = len(message.get("body", b""))
                request.use.bytes_out += size
                if not message.get("more_body"):
                    seconds = time.perf_counter() - start
                if size <= BUFFERED_BYTES:
                    await send(message)
                    return
                with self._service.gate.sending(request, size):
                    await send(message)

        try:
            with request_scope(request):
                handled = self._handle(scope, receive, send_with_headers, request)
                await Timed(handled, request)
        except asyncio.CancelledError:
            # Requests are cancelled where the service stops before they are done.
            if has_begun:
                raise
            is_stopping = True
            stopping = ApiError(503, "the service is stopping", "unavailable", headers=RETRY)
            await stopping.response()(scope, receive, send_with_headers)
        finally:
            if seconds is None:
                seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", "-")
            self._service.metrics.observe_request(
                route, scope["method"], status, None if is_stream else seconds
            )
            self._service.metrics.observe_step(route, request.longest_step)
            if request.longest_step > MAX_STEP_SECONDS:
                held = round(request.longest_step * 1000)
                _log.warning("a request held the event loop", id=request_id, route=route, ms=held)
            _log.info(
                "request",
                id=request_id,
                method=scope["method"],
                route=route,
                status=status,
                ms=round(seconds * 1000, 1),
                who=scope.get(KEY),
            )

    async def _delay_response(self, scope: Scope, status: int) -> float:
        """Wait while the response is to be late; return for how many seconds."""
        sender = _late_sender(scope, status)
        delay = 0.0 if sender is None else self._service.late.delay(sender)
        if not delay:
            return 0.0
        begun = time.perf_counter()
        await scope.get(LATE, asyncio.sleep)(delay)
        return time.perf_counter() - begun

    @staticmethod
    def _drop_ranges(scope: Scope) -> None:
        """Have a request for more ranges of a file than clients need answered with the whole."""
        scope["headers"] = [
            (name, value)
            for name, value in scope["headers"]
            if name != b"range" or value.count(b",") < _MAX_RANGES
        ]

    async def _handle(
        self, scope: Scope, receive: Receive, send: Send, request: RequestScope
    ) -> None:
        path = scope["path"]
        self._drop_ranges(scope)
        limit = self._limit(path)
        receive = _limited(receive, limit, request.use)
        try:
            if scope["method"] not in _READS and self._service.committer.outage is not None:
                raise ApiError(503, UNAVAILABLE, "unavailable", None, RETRY)
            if path.startswith(_PRIVATE):
                who = authenticate(scope, self._service)
                # Uploads have an error of their own.
                if path not in UPLOADS and _content_length(scope) > limit:
                    raise _too_large(limit)
                body = _Body(receive)
                wait = None if is_upload(scope) else body.wait
                async with self._service.gate.enter(request, who, wait):
                    await self._app(scope, body, send)
            else:
                await self._app(scope, receive, send)
        except (ApiError, LimitReachedError) as error:
            refusal = error if isinstance(error, ApiError) else to_api_error(error)
            refusal.headers = {**(refusal.headers or {}), **CLOSE_CONNECTION}
            await refusal.response()(scope, receive, send)

    def _limit(self, path: str) -> int:
        if path in UPLOADS:
            return self._service.files.limits.upload_bytes + FORM_BYTES
        if path in _LARGE or (path.startswith("/page/") and path != SIGN_IN):
            return LARGE_BYTES
        return SMALL_BYTES


def _late_sender(scope: Scope, status: int) -> str | None:
    """Return in whose name a response may be late; None: it is in time, as a vendor's data set."""
    key, path = scope.get(KEY), scope["path"]
    if path.startswith(VENDOR_ROOT) and status < 400:
        return None
    if key is not None:
        return f"key {key}"
    address, _ = scope.get("client") or ("", 0)
    network = client_network(address)
    # What checks the health may be a proxy that sends everybody's requests.
    return f"health {network}" if path in _PROBES else network


def is_upload(scope: Mapping[str, object]) -> bool:
    """Return whether a request sends a file, which its route receives."""
    return scope["method"] == "POST" and scope["path"] in UPLOADS


def _content_length(scope: Scope) -> int:
    value = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(value) if value.isdigit() and len(value) < 19 else 0


def _too_large(limit: int) -> ApiError:
    return ApiError(
        413, f"the body has more than {limit} bytes", "too_large", None, CLOSE_CONNECTION
    )


def _limited(receive: Receive, limit: int, use: Use) -> Receive:
    remaining = limit

    async def counted() -> Message:
        nonlocal remaining
        message = await receive()
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            remaining -= size
            use.bytes_in += size
            if remaining < 0:
                raise _too_large(limit)
        return message

    return counted


class _Body:
    """The body of a request, which can be waited for before it is read."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages = deque[Message]()

    async def wait(self) -> None:
        """Receive all of it, or that the client has left."""
        while not self._messages or self._messages[-1].get("more_body"):
            self._messages.append(await self._receive())

    async def __call__(self) -> Message:
        """Receive the next part."""
        return self._messages.popleft() if self._messages else await self._receive()
