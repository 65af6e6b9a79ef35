"""Error responses in OpenAI's format."""

import math
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any

import orjson
import structlog
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from auctune.domain import AuctuneError, InputError
from auctune.engine.data.client import DataError
from auctune.engine.generation import InferenceError
from auctune.files.schema import format_path
from auctune.service.accounts.budgets import BudgetExceededError
from auctune.service.accounts.limits import LimitReachedError
from auctune.service.files.blobs import DiskFullError, TooLargeError
from auctune.service.http.schemas import ErrorBody
from auctune.service.http.serializers import quote_view
from auctune.service.inference.catalog import ModelNotFoundError
from auctune.service.jobs.quotes import QuoteChangedError
from auctune.service.storage.engine import StoreError
from auctune.service.submissions import ClockError, ZonePausedError
from auctune.service.zones.core.actor import ZoneUnavailableError

_log = structlog.get_logger(__name__)

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_MAX_MESSAGE, _MAX_FOUND, _MAX_PARAM = 4000, 400, 200
RETRY = {"Retry-After": "1"}


def retry_after(seconds: float) -> dict[str, str]:
    """Return the header that says when to try again: in whole seconds, and not too soon."""
    return {"Retry-After": f"{max(1, math.ceil(seconds))}"}


UNAVAILABLE = "the database cannot be used now; try again later"
_ROUTES = (
    "/v1/files, /v1/fine_tuning/jobs, /v1/models, /v1/chat/completions, /v1/completions, "
    "/v1/quotes, /v1/zones, /v1/ledger, /v1/webhooks, and "
    "/v1/users, /v1/teams and /v1/keys for operators"
)


class ApiError(HTTPException):
    """Error response.

    It is an `HTTPException` because FastAPI replaces any other error that reading a body raises.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.param = param
        self.extra = extra or {}

    def content(self) -> dict[str, Any]:
        """Return the body of the response."""
        status = self.status_code
        kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
        error = {
            "message": _truncate(self.detail, _MAX_MESSAGE),
            "type": kind,
            "param": self.param and _truncate(self.param, _MAX_PARAM),
            "code": self.code,
        }
        return {"error": error, **self.extra}

    def response(self) -> Response:
        body = orjson.dumps(self.content())
        return Response(body, self.status_code, self.headers, media_type="application/json")


def not_found(what: str, name: str) -> ApiError:
    """Return the error for an object that does not exist or belongs to another user."""
    return ApiError(404, f"there is no {what} {_truncate(name, _MAX_PARAM)!r}", "not_found", "id")


# For errors that are sent before the body was read.
CLOSE_CONNECTION = {"Connection": "close"}

# Errors of all routes, for the OpenAPI document.
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "The request is invalid or not allowed"},
    "5XX": {"model": ErrorBody, "description": "The service cannot process the request now"},
}


# Errors with a fixed response: status, code, param and headers.
FIXED_RESPONSES: dict[type[Exception], tuple[int, str, str | None, Mapping[str, str] | None]] = {
    LimitReachedError: (429, "limit_reached", None, None),
    BudgetExceededError: (429, "insufficient_quota", None, None),
    ModelNotFoundError: (404, "model_not_found", "model", None),
    ZonePausedError: (400, "zone_paused", "market.zone", None),
    # The rest of the upload is not read.
    DiskFullError: (507, "disk_full", None, CLOSE_CONNECTION),
    ClockError: (503, "unavailable", None, RETRY),
    DataError: (503, "unavailable", None, RETRY),
    InferenceError: (503, "unavailable", None, RETRY),
    ZoneUnavailableError: (503, "unavailable", None, RETRY),
    StoreError: (503, "unavailable", None, RETRY),
}


def to_api_error(error: AuctuneError) -> ApiError:
    """Return the error response for an `InputError`, or one of `FIXED_RESPONSES`."""
    if isinstance(error, InputError):
        return _invalid_value(error)
    kind = next(kind for kind in type(error).__mro__ if kind in FIXED_RESPONSES)
    status, code, param, headers = FIXED_RESPONSES[kind]
    # The text of a failure of the database has paths of the server.
    message = UNAVAILABLE if isinstance(error, StoreError) else str(error)
    if isinstance(error, LimitReachedError) and error.retry_after is not None:
        headers = retry_after(error.retry_after)
    return ApiError(status, message, code, param, headers)


def _too_large(_: Request, error: TooLargeError) -> ApiError:
    message = _format(error, "file")
    return ApiError(413, message, "too_large", "file", CLOSE_CONNECTION)


def _validation(_: Request, error: RequestValidationError) -> ApiError:
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if first["type"] == "json_invalid":
        invalid = InputError("body", f"is not valid JSON ({cause})", "a JSON object")
        return _invalid_value(invalid)
    place = [part for part in first["loc"] if part not in ("body", "query", "path", "header")]
    if isinstance(cause, InputError):
        return _invalid_value(
            InputError(
                format_path([*place, *filter(None, [cause.place])]), cause.found, cause.expected
            )
        )
    path = format_path(place)
    message = f"{path}: {first['msg']}" if path else first["msg"]
    return ApiError(400, message, "invalid_value", path or None)


def _quote_changed(_: Request, error: QuoteChangedError) -> ApiError:
    # Not 409, which OpenAI's clients retry.
    quote = {"quote": quote_view(error.quote)}
    return ApiError(422, str(error), "quote_changed", "market.quote", extra=quote)


def _http(request: Request, error: HTTPException) -> ApiError:
    status = error.status_code
    message, code = str(error.detail), None
    # Errors of the router have the status phrase as their message.
    if message == HTTPStatus(status).phrase and status in (404, 405):
        message, code = _unknown_route(request, status), "unknown_url"
    return ApiError(status, message, code, None, error.headers)


def _disconnected(_: Request, __: ClientDisconnect) -> ApiError:
    # For the access log; the client does not receive it.
    return ApiError(400, "the client disconnected", None)


def _unexpected(request: Request, error: Exception) -> ApiError:
    # Only the pattern of the path: logs contain no names that users choose.
    route = getattr(request.scope.get("route"), "path", "-")
    _log.exception("request failed", route=route)
    return ApiError(500, "internal error; it has been logged", "internal")


_RESPONSES: dict[type[Exception], Callable[[Request, Any], ApiError]] = {
    **dict.fromkeys((*FIXED_RESPONSES, InputError), lambda _, error: to_api_error(error)),
    ApiError: lambda _, error: error,
    TooLargeError: _too_large,
    RequestValidationError: _validation,
    QuoteChangedError: _quote_changed,
    HTTPException: _http,
    ClientDisconnect: _disconnected,
    Exception: _unexpected,
}


def make_handlers(
    respond: Callable[[Request, ApiError], Response],
) -> dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]]:
    """Return exception handlers that answer with what `respond` makes of an error response."""

    def handler(describe: Callable[[Request, Any], ApiError]) -> Any:
        async def handle(request: Request, error: Exception) -> Response:
            return respond(request, describe(request, error))

        return handle

    return {kind: handler(describe) for kind, describe in _RESPONSES.items()}


HANDLERS = make_handlers(lambda _, error: error.response())
"""Exception handlers of the API."""


def _invalid_value(error: InputError) -> ApiError:
    # The message names the field too, for clients that show the message alone.
    message = _format(error, error.place)
    return ApiError(400, message, "invalid_value", error.place or None)


def _format(error: InputError, place: str) -> str:
    message = f"{_truncate(error.found, _MAX_FOUND)}; expected {error.expected}"
    return f"{_truncate(place, _MAX_PARAM)}: {message}" if place else message


def _truncate(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _unknown_route(request: Request, status: int) -> str:
    path = _truncate(request.url.path, _MAX_PARAM)
    if status == 405:
        return f"{path} does not support {request.method}; see /openapi.json"
    return f"there is no {path}; this service offers {_ROUTES}; see /openapi.json"
