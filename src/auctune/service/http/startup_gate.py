"""Application in front of the service's: it answers until the service is open."""

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from auctune.service.http.errors import ApiError

_RETRY = {"Retry-After": "5"}


class StartupGate:
    """ASGI application that passes requests on once the service is open.

    Until then /health is 200, and all other paths are 503 with what the service waits for.
    """

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._reason = "the service is starting"

    def report(self, stage: str, share: float) -> None:
        """Note the step of the start, and the share of it that is done; from any thread."""
        done = f" ({share:.0%})" if 0 < share < 1 else ""
        self._reason = f"the service is starting: {stage}{done}"

    def open(self, app: ASGIApp) -> None:
        """Pass requests on to this application from now on."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app if self._app is not None else self._response(scope["path"])
        await app(scope, receive, send)

    def _response(self, path: str) -> Response:
        if path == "/health":
            return JSONResponse({"status": "ok"})
        if path == "/ready":
            return JSONResponse({"status": "not ready", "reason": self._reason}, 503, _RETRY)
        return ApiError(503, self._reason, "unavailable", headers=_RETRY).response()
