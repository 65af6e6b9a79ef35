"""Fast path of bids, without FastAPI's routing, dependencies and exit stacks.

Those take a third of the CPU time of a bid; benchmarks/service_load.py measures the rate. The
function of the route and the error handlers are the same on both paths.
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
    """Serves bids by their route's function, and all other requests by the framework.

    Args:
        app: application of all other requests.
        limit: adds the middleware of all requests to the application of bids.
        create: function of the route.
        handlers: exception handlers by class. That of `Exception` handles unexpected errors, which
            are then raised again, as Starlette does.
    """

    def __init__(
        self,
        app: ASGIApp,
        limit: Callable[[ASGIApp], ASGIApp],
        create: Callable[[Request], Awaitable[Response]],
        handlers: Mapping[Any, Any],
    ) -> None:
        self._app = app
        self._bids = limit(self._bid)
        self._create = create
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_bid = scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "POST"
        await (self._bids if is_bid else self._app)(scope, receive, send)

    async def _bid(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Metrics and the access log name requests by their route.
        scope["route"] = _ROUTE
        request = Request(scope, receive)
        failure: Exception | None = None
        try:
            response = await self._create(request)
        except Exception as error:
            kind = next(kind for kind in type(error).__mro__ if kind in self._handlers)
            response = await self._handlers[kind](request, error)
            failure = error if kind is Exception else None
        await response(scope, receive, send)
        if failure is not None:
            raise failure
