"""BidEndpoint past the framework: what is asked a thousand times a second does without its layers.

Routing, dependencies, exit stacks and the layers around them took a third of all that a bid takes.
The route's own function answers here too, and the same handlers answer its errors.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/v1/fine_tuning/jobs"
_ROUTE = SimpleNamespace(path=PATH)


class FastPath:
    """Where the ways part.

    Args:
        app: the long way, of all other requests.
        bids: the short way.
    """

    def __init__(self, app: ASGIApp, bids: ASGIApp) -> None:
        self._app = app
        self._bids = bids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request go its way."""
        is_bid = scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "POST"
        await (self._bids if is_bid else self._app)(scope, receive, send)


class BidEndpoint:
    """Answers bids.

    Args:
        answer: to one.
        handlers: what answers errors, by their class; that of Exception answers what nobody
            expected, which is raised again for the record.
    """

    def __init__(
        self, answer: Callable[[Request], Awaitable[Response]], handlers: Mapping[Any, Any]
    ) -> None:
        self._answer = answer
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        # The gate names requests by their route.
        scope["route"] = _ROUTE
        request = Request(scope, receive)
        failure: Exception | None = None
        try:
            answer = await self._answer(request)
        except Exception as error:
            kind = next(kind for kind in type(error).__mro__ if kind in self._handlers)
            answer = await self._handlers[kind](request, error)
            failure = error if kind is Exception else None
        await answer(scope, receive, send)
        if failure is not None:
            raise failure
