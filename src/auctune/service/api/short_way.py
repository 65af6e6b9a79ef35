"""Bids past the framework: what is asked a thousand times a second does without its layers.

The framework's layers took a quarter of all that a bid takes. A bid that is well formed, and
whose key is good, is answered here by the same functions as the route's; whatever is otherwise
goes the long way, and is answered there.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from auctune.domain import InputError
from auctune.service.access.key import Principal, Role
from auctune.service.api.routes.jobs import bid
from auctune.service.jobs.request import JobRequest
from auctune.service.market import Market

_PATH = "/v1/fine_tuning/jobs"
_LONGEST = 64 * 1024
_LONGEST_KEY = 255


class ShortWay:
    """Around the application.

    Args:
        app: the long way.
        market: open.
        handlers: what answers errors, by their class.
    """

    def __init__(self, app: ASGIApp, market: Market, handlers: Mapping[Any, Any]) -> None:
        self._app = app
        self._market = market
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] != _PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        who, key = self._principal(headers), headers.get("idempotency-key")
        first = await receive()
        body = first.get("body", b"")
        wanted = None
        is_plain = not first.get("more_body") and len(body) <= _LONGEST
        if who is not None and is_plain and len(key or "") <= _LONGEST_KEY:
            wanted = _read(headers, body)
        if who is None or wanted is None or self._market.rate.take(who.key) > 0:
            await self._app(scope, _again(first, receive), send)
            return
        retries = headers.get("x-stainless-retry-count")
        try:
            answer = await bid(self._market, who, wanted, body, key, retries)
        except Exception as error:
            handler = self._handler(error)
            if handler is None:
                raise
            answer = await handler(Request(scope), error)
        await answer(scope, receive, send)

    def _principal(self, headers: Headers) -> Principal | None:
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        who = self._market.directory.principal(secret.strip())
        return None if who is None or who.role is Role.VENDOR else who

    def _handler(self, error: Exception) -> Any:
        for kind in type(error).__mro__:
            if kind in self._handlers and kind is not Exception:
                return self._handlers[kind]
        return None


def _read(headers: Headers, body: bytes) -> JobRequest | None:
    """A well-formed request; none: the long way says what is wrong with it."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    try:
        return JobRequest.model_validate_json(body)
    except (ValidationError, InputError):
        return None


def _again(first: Message, receive: Receive) -> Receive:
    """What receives the first message once more, and then what follows."""
    waiting = [first]

    async def read() -> Message:
        return waiting.pop() if waiting else await receive()

    return read
