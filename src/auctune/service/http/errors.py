"""Errors in OpenAI's shape: what was found, where, what was expected."""

from collections.abc import Mapping
from http import HTTPStatus
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
from auctune.service.accounts.limits import QuotaExceededError
from auctune.service.files.blobs import DiskFullError, TooLargeError
from auctune.service.http.schemas import ErrorBody
from auctune.service.http.serializers import quote_view
from auctune.service.jobs.quotes import QuoteChangedError
from auctune.service.jobs.router import ZonePausedError
from auctune.service.storage.errors import StoreError
from auctune.service.upkeep import ClockError
from auctune.service.zones.core.actor import ZoneUnavailableError

_log = structlog.get_logger(__name__)

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_MESSAGE, _FOUND, _PARAM = 4000, 400, 200
_MODELS = ("/v1/models", "/v1/chat", "/v1/completions", "/v1/responses", "/v1/embeddings")
_OFFERED = (
    "/v1/files, /v1/fine_tuning/jobs, /v1/quotes, /v1/zones, /v1/ledger, /v1/webhooks, and "
    "/v1/users, /v1/teams and /v1/keys for operators"
)


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
    return ApiError(404, f"there is no {what} {_cut(name, _PARAM)!r}", "not_found", "id")


def error_response(
    status: int,
    message: str,
    code: str | None,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Response:
    """An error as an answer."""
    message, param = _cut(message, _MESSAGE), param and _cut(param, _PARAM)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    error = {"message": message, "type": kind, "param": param, "code": code}
    body = orjson.dumps({"error": error, **(extra or {})})
    return Response(body, status, dict(headers or {}), media_type="application/json")


# The rest of a body that is too long is not waited for.
CLOSE_CONNECTION = {"Connection": "close"}

# What every route may answer; for the OpenAPI document.
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "The request cannot be done as it stands"},
    "5XX": {"model": ErrorBody, "description": "The service cannot do it now"},
}


def handle_errors(app: FastAPI) -> None:
    """Have all errors answered in one shape."""

    @app.exception_handler(ApiError)
    async def _api(_: Request, error: ApiError) -> Response:
        return error_response(
            error.status, error.message, error.code, error.param, error.headers, error.extra
        )

    @app.exception_handler(InputError)
    async def _input(_: Request, error: InputError) -> Response:
        return _invalid_value(error)

    @app.exception_handler(TooLargeError)
    async def _large(_: Request, error: TooLargeError) -> Response:
        return error_response(413, _format(error, "file"), "too_large", "file", CLOSE_CONNECTION)

    @app.exception_handler(RequestValidationError)
    async def _validation(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        own = first.get("ctx", {}).get("error")
        place = [part for part in first["loc"] if part not in ("body", "query", "path", "header")]
        if isinstance(own, InputError):
            return _invalid_value(
                InputError(format_path([*place, own.place]), own.found, own.expected)
            )
        path = format_path(place)
        message = f"{path}: {first['msg']}" if path else first["msg"]
        return error_response(400, message, "invalid_value", path or None)

    @app.exception_handler(QuoteChangedError)
    async def _quote(_: Request, error: QuoteChangedError) -> Response:
        # Clients try 409 again by themselves, which would be no use.
        menu = {"quote": quote_view(error.quote)}
        return error_response(422, str(error), "quote_changed", "market.quote", extra=menu)

    @app.exception_handler(QuotaExceededError)
    async def _too_many(_: Request, error: QuotaExceededError) -> Response:
        return error_response(429, str(error), "limit_reached")

    @app.exception_handler(ZonePausedError)
    async def _paused(_: Request, error: ZonePausedError) -> Response:
        return error_response(400, str(error), "zone_paused", "market.zone")

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        status = error.status_code
        message, code = str(error.detail), None
        # What it says by itself comes from the router.
        if message == HTTPStatus(status).phrase and status in (404, 405):
            message, code = _unknown_route(request, status), "unknown_url"
        return error_response(status, message, code, None, error.headers)

    @app.exception_handler(DiskFullError)
    async def _full(_: Request, error: DiskFullError) -> Response:
        # The rest of an upload is not read.
        return error_response(507, str(error), "disk_full", None, CLOSE_CONNECTION)

    @app.exception_handler(ClockError)
    @app.exception_handler(DataError)
    @app.exception_handler(ZoneUnavailableError)
    @app.exception_handler(StoreError)
    async def _unavailable(_: Request, error: Exception) -> Response:
        return error_response(503, str(error), "unavailable", None, {"Retry-After": "1"})

    @app.exception_handler(ClientDisconnect)
    async def _gone(_: Request, __: ClientDisconnect) -> Response:
        # Nobody reads it, and it is no fault of anybody's.
        return error_response(400, "the client hung up before the body was through", None)

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> Response:
        # Of a path only its pattern: what users name does not get into logs.
        route = getattr(request.scope.get("route"), "path", "-")
        _log.exception("a request failed", route=route)
        return error_response(500, "the service made a mistake; it is on record", "internal")


def _invalid_value(error: InputError) -> Response:
    """A value that is wrong: clients that show the message alone name its field too."""
    return error_response(400, _format(error, error.place), "invalid_value", error.place or None)


def _format(error: InputError, place: str) -> str:
    message = f"{_cut(error.found, _FOUND)}; expected {error.expected}"
    return f"{_cut(place, _PARAM)}: {message}" if place else message


def _cut(text: str, length: int) -> str:
    """Return the beginning of what may be as long as a client likes."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _unknown_route(request: Request, status: int) -> str:
    """Return what to say of a route that there is none of."""
    path = _cut(request.url.path, _PARAM)
    if status == 405:
        return f"{path} does not take {request.method}; see /openapi.json"
    if path.startswith(_MODELS):
        return (
            f"there is no {path}: this service trains adapters and runs no model. What models it "
            "trains is in /v1/zones, and a job's result file is its adapter"
        )
    return f"there is no {path}; this service offers {_OFFERED}; see /openapi.json"
