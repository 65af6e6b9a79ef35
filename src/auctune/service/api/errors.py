"""Errors in OpenAI's shape: what was found, where, what was expected."""

from collections.abc import Mapping
from typing import Any

import orjson
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from auctune.domain import InputError
from auctune.run.data.client import DataError
from auctune.schema import format_path
from auctune.service.access.open_jobs import TooManyError
from auctune.service.api.answers import ErrorBody
from auctune.service.api.views import quote_view
from auctune.service.files.blobs import TooLargeError
from auctune.service.jobs.offered_zones import ZonePausedError
from auctune.service.quotes import QuoteChangedError
from auctune.service.store.errors import StoreError
from auctune.service.zones.desk import DeskClosedError

_log = structlog.get_logger(__name__)

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class ApiError(Exception):
    """An answer that is an error.

    Args:
        status: of HTTP.
        message: for people.
        code: for programs.
        param: the field that it is about.
        headers: of the answer.
        extra: beside the error, such as a new menu.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers = headers
        self.extra = extra or {}


def not_found(what: str, name: str) -> ApiError:
    """There is no such thing, or it is somebody else's: the same answer for both."""
    return ApiError(404, f"there is no {what} {name!r}", "not_found", "id")


def answer_error(
    status: int,
    message: str,
    code: str | None,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Response:
    """An error as an answer."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    error = {"message": message, "type": kind, "param": param, "code": code}
    body = orjson.dumps({"error": error, **(extra or {})})
    return Response(body, status, dict(headers or {}), media_type="application/json")


# The rest of a body that is too long is not waited for.
CLOSE = {"Connection": "close"}

# What every route may answer; for the OpenAPI document.
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "The request cannot be done as it stands"},
    "5XX": {"model": ErrorBody, "description": "The service cannot do it now"},
}


def handle_errors(app: FastAPI) -> None:
    """Have all errors answered in one shape."""

    @app.exception_handler(ApiError)
    async def _api(_: Request, error: ApiError) -> Response:
        return answer_error(
            error.status, error.message, error.code, error.param, error.headers, error.extra
        )

    @app.exception_handler(InputError)
    async def _input(_: Request, error: InputError) -> Response:
        return _wrong(error)

    @app.exception_handler(TooLargeError)
    async def _large(_: Request, error: TooLargeError) -> Response:
        return answer_error(413, _told(error, "file"), "too_large", "file", CLOSE)

    @app.exception_handler(RequestValidationError)
    async def _validation(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        own = first.get("ctx", {}).get("error")
        place = [part for part in first["loc"] if part not in ("body", "query", "path", "header")]
        if isinstance(own, InputError):
            return _wrong(InputError(format_path([*place, own.place]), own.found, own.expected))
        path = format_path(place)
        message = f"{path}: {first['msg']}" if path else first["msg"]
        return answer_error(400, message, "invalid_value", path or None)

    @app.exception_handler(QuoteChangedError)
    async def _quote(_: Request, error: QuoteChangedError) -> Response:
        # Clients try 409 again by themselves, which would be no use.
        menu = {"quote": quote_view(error.quote)}
        return answer_error(422, str(error), "quote_changed", "market.quote", extra=menu)

    @app.exception_handler(TooManyError)
    async def _too_many(_: Request, error: TooManyError) -> Response:
        return answer_error(429, str(error), "limit_reached")

    @app.exception_handler(ZonePausedError)
    async def _paused(_: Request, error: ZonePausedError) -> Response:
        return answer_error(400, str(error), "zone_paused", "market.zone")

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> Response:
        return answer_error(error.status_code, str(error.detail), None, None, error.headers)

    @app.exception_handler(DataError)
    @app.exception_handler(DeskClosedError)
    @app.exception_handler(StoreError)
    async def _unavailable(_: Request, error: Exception) -> Response:
        return answer_error(503, str(error), "unavailable", None, {"Retry-After": "1"})

    @app.exception_handler(ClientDisconnect)
    async def _gone(_: Request, __: ClientDisconnect) -> Response:
        # Nobody reads it, and it is no fault of anybody's.
        return answer_error(400, "the client hung up before the body was through", None)

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> Response:
        # Of a path only its pattern: what users name does not get into logs.
        route = getattr(request.scope.get("route"), "path", "-")
        _log.exception("a request failed", route=route)
        return answer_error(500, "the service made a mistake; it is on record", "internal")


def _wrong(error: InputError) -> Response:
    """A value that is wrong: clients that show the message alone name its field too."""
    return answer_error(400, _told(error, error.place), "invalid_value", error.place or None)


def _told(error: InputError, place: str) -> str:
    message = f"{error.found}; expected {error.expected}"
    return f"{place}: {message}" if place else message
