"""Reading requests: who sent them, JSON bodies, query parameters and uploads.

Nothing in them is ignored silently.

The multipart upload of one file is parsed while it arrives; only small fields are buffered.
"""

import json
import logging
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ValidationError
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.datastructures import QueryParams
from starlette.types import Scope

from auctune.domain import InputError
from auctune.files.schema import to_input_error
from auctune.service.accounts.registry import Principal
from auctune.service.files.repository import Purpose
from auctune.service.http.errors import ApiError, retry_after
from auctune.service.inference.requests import ChatRequest, CompletionRequest
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.service import Service

KEY = "auctune.who"
"""In a scope: id of the key with which, or with whose session, the request was sent."""
_PRINCIPAL = "auctune.principal"
_bearer = HTTPBearer(auto_error=False, description="An API key")

SECURED: dict[str, Any] = {"security": [{"HTTPBearer": []}]}
"""OpenAPI description of a route that does not declare a user dependency."""


async def get_service(request: Request) -> Service:
    """Return the service behind the application."""
    service: Service = request.app.state.service
    return service


def authenticate(scope: Scope, service: Service) -> Principal:
    """Return the sender of a request, from its headers; raise 401 or 429."""
    header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    scheme, _, secret = header.decode("latin-1").partition(" ")
    who = service.accounts.authenticate(secret.strip()) if scheme.lower() == "bearer" else None
    if who is None:
        raise ApiError(
            401,
            "no valid API key; expected the header Authorization: Bearer sk-...",
            "invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )
    scope[_PRINCIPAL] = who
    count_request(scope, service, who)
    return who


def count_request(scope: Scope, service: Service, who: Principal) -> None:
    """Note the sender of a request, and count it against its key's rate; raise 429 beyond that."""
    scope[KEY] = who.key
    wait = service.rate.acquire(who.key)
    if wait > 0:
        seconds = math.ceil(wait)
        raise ApiError(
            429,
            f"this key sends more than its requests a second; try again in {seconds} s",
            "rate_limit_exceeded",
            headers=retry_after(wait),
        )


def authenticate_user(request: Request) -> Principal:
    """Return the sender that `RequestMiddleware` has authenticated."""
    who: Principal = request.scope[_PRINCIPAL]
    return who


# The unused scheme puts the authentication into the OpenAPI document.
async def current_user(request: Request, _: Annotated[object, Security(_bearer)]) -> Principal:
    """Return the user that sent a request."""
    return authenticate_user(request)


async def require_operator(who: Annotated[Principal, Depends(current_user)]) -> Principal:
    """Return the operator that sent a request; raise 403 for other users."""
    if not who.is_operator:
        raise ApiError(403, "needs an operator's key", "forbidden")
    return who


ServiceDep = Annotated[Service, Depends(get_service)]
CurrentUser = Annotated[Principal, Depends(current_user)]
OperatorUser = Annotated[Principal, Depends(require_operator)]


M = TypeVar("M", bound=BaseModel)

_SCHEMA = "#/components/schemas/{model}"
_MAX_ERRORS = 500
_MAX_NESTED = 10_000


def body_schema(*models: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a body that a route reads itself: one of these models."""
    refs = [{"$ref": _SCHEMA.format(model=model.__name__)} for model in models]
    schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def component_schemas() -> dict[str, Any]:
    """Return the schemas that `body_schema` refers to."""
    components: dict[str, Any] = {}
    for model in (JobRequest, Acceptance, ChatRequest, CompletionRequest):
        schema = model.model_json_schema(ref_template=_SCHEMA)
        components |= {**schema.pop("$defs", {}), model.__name__: schema}
    return components


def read_request(raw: bytes) -> JobRequest | Acceptance:
    """Parse the body of a request for a job: a bid, or the acceptance of a quote."""
    _check_nesting(raw)
    try:
        request = JobRequest.model_validate_json(raw)
    except ValidationError as error:
        value = _load(raw)
        if _names_quote(value):
            return _read_acceptance(raw)
        raise _to_input_error(error, value, JobRequest) from None
    if request.market.quote is not None:
        return _read_acceptance(raw)
    if request.market.line is not None:
        raise InputError("market.line", "is given", "none without market.quote")
    reject_repeated_keys(raw)
    return request


def read_body(raw: bytes, model: type[M]) -> M:
    """Parse a body as a model; raise InputError for its first invalid field."""
    _check_nesting(raw)
    try:
        body = model.model_validate_json(raw)
    except ValidationError as error:
        raise _to_input_error(error, _load(raw), model) from None
    reject_repeated_keys(raw)
    return body


async def reject_ignored(request: Request) -> None:
    """Reject query parameters that the route does not have, and repeated keys of a JSON body.

    A dependency of all routes; routes that read their body themselves call `read_body`.
    """
    route = request.scope["route"]
    if request.scope["query_string"]:
        described = (route.openapi_extra or {}).get("parameters", ())
        names = {param.alias for param in route.dependant.query_params}
        names |= {param["name"] for param in described if param["in"] == "query"}
        reject_unknown_query(request.query_params, names)
    if route.body_field is not None:
        reject_repeated_keys(await request.body())


def reject_unknown_query(query: QueryParams, names: Collection[str]) -> None:
    """Reject query parameters other than these, and repeated ones."""
    for name, count in Counter(name for name, _ in query.multi_items()).items():
        if name.partition("[")[0] not in names:
            expected = f"one of {', '.join(sorted(names))}" if names else "no query parameters"
            raise InputError(name, "is not a query parameter of this route", expected)
        if count > 1:
            raise InputError(name, "is given twice", "one value")


def reject_repeated_keys(raw: bytes) -> None:
    """Reject a JSON body in which an object has a key twice; parsers keep the last one only."""
    try:
        json.loads(raw, object_pairs_hook=_unique)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        # Not valid JSON: reported by the parser of the body.
        return


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, one in pairs:
        if name in value:
            raise InputError(name, "is given twice", "each key once")
        value[name] = one
    return value


def _read_acceptance(raw: bytes) -> Acceptance:
    accepted = read_body(raw, Acceptance)
    if accepted.market.what_if:
        raise InputError("market.what_if", "is set with market.quote", "what_if without a quote")
    return accepted


def _check_nesting(raw: bytes) -> None:
    """Refuse a body of very many lists or objects.

    A body of 256 kB can hold 80,000 empty lists, which take half a second to parse and block all
    other requests. Brackets within strings count too; no sensible request has so many.
    """
    count = raw.count(b"[") + raw.count(b"{")
    if count > _MAX_NESTED:
        found = f"has {count} lists and objects"
        raise InputError("body", found, f"a request with at most {_MAX_NESTED}")


def _load(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except ValueError as error:
        raise InputError("body", f"is not valid JSON ({error})", "a JSON object") from None


def _names_quote(value: Any) -> bool:
    terms = value.get("market") if isinstance(value, dict) else None
    return isinstance(terms, dict) and terms.get("quote") is not None


def _to_input_error(error: ValidationError, value: Any, model: type[BaseModel]) -> InputError:
    # Listing all errors of a body of 180 kB takes a second and blocks all other requests.
    if (count := error.error_count()) > _MAX_ERRORS:
        return InputError("body", f"has {count} invalid keys or values", "a valid request")
    first = to_input_error(error, "", value, model)
    place = first.place.removeprefix(": ").replace(": ", ".")
    return InputError(place or "body", first.found, first.expected)


# The parser logs a warning for each invalid form, which the client gets as an error anyway.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)

TOKEN = "csrf"
"""Field of a form with the token of its session."""

_MAX_FIELD_BYTES = 1024
_EXPECTED = "multipart/form-data with the fields file and purpose"
_DIGITS = re.compile(rb"[0-9]{1,9}")
_ANCHOR, _SECONDS = "expires_after[anchor]", "expires_after[seconds]"
EXPIRY_SECONDS = range(3600, 30 * 86_400 + 1)
"""Values of `expires_after[seconds]`, as in OpenAI's API."""


class MultipartUpload:
    """Form of POST /v1/files; its other fields are set once `chunks` is exhausted.

    Args:
        check_token: for a form of a page, which has a field `csrf` before its file: called with
            the field, or "", before the file is read.
    """

    def __init__(self, request: Request, check_token: Callable[[str], None] | None = None) -> None:
        # Cut: the parser takes 0.2 s for the longest header that the server accepts.
        kind, options = parse_options_header(request.headers.get("content-type", "")[:1000])
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not 1 <= len(boundary) <= 70:
            raise InputError("Content-Type", "is not a form with a file", _EXPECTED)
        self.filename = ""
        self.purpose = Purpose.TRAINING
        self.expires_seconds: int | None = None
        self._request = request
        self._parts = _PartCollector(check_token)
        self._parser = MultipartParser(boundary, self._parts.callbacks())

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for received in self._request.stream():
                self._parser.write(received)
                for chunk in self._parts.take():
                    yield chunk
            self._parser.finalize()
        except FormParserError:
            raise InputError("body", "is not a valid form", _EXPECTED) from None
        self._check()

    def _check(self) -> None:
        parts = self._parts
        if not parts.is_over:
            raise InputError("body", "ends before the end of the form", _EXPECTED)
        if parts.filename is None:
            raise InputError("file", "is missing", "a file of rows")
        if not parts.size:
            raise InputError("file", "is empty", "a file of rows")
        purpose = parts.fields.get("purpose")
        if purpose != Purpose.TRAINING.value.encode():
            found = "is missing" if purpose is None else "is not offered"
            raise InputError("purpose", found, repr(Purpose.TRAINING.value))
        self.filename = safe_filename(parts.filename)
        self.expires_seconds = _expiry_seconds(parts.fields)


def _expiry_seconds(fields: Mapping[str, bytes]) -> int | None:
    """Return after how many seconds an upload expires, or None."""
    if fields.keys().isdisjoint((_ANCHOR, _SECONDS)):
        return None
    anchor, seconds = fields.get(_ANCHOR), fields.get(_SECONDS)
    if anchor != b"created_at":
        raise InputError(_ANCHOR, _found(anchor), "'created_at'")
    if seconds is None or not _DIGITS.fullmatch(seconds) or int(seconds) not in EXPIRY_SECONDS:
        first, last = EXPIRY_SECONDS[0], EXPIRY_SECONDS[-1]
        expected = f"a whole number of seconds from {first} (an hour) to {last} (30 days)"
        raise InputError(_SECONDS, _found(seconds), expected)
    return int(seconds)


def _found(value: bytes | None) -> str:
    return "is missing" if value is None else f"is {value[:64].decode(errors='replace')!r}"


def safe_filename(raw: bytes) -> str:
    """Return the last part of a file name, without characters that are not printable."""
    text = raw.decode("utf-8", errors="replace").replace("\\", "/").rpartition("/")[2]
    return "".join(character for character in text if character.isprintable())[:255] or "data.jsonl"


class _PartCollector:
    """Callbacks of the parser: checks fields, and collects the content of the file."""

    def __init__(self, check_token: Callable[[str], None] | None) -> None:
        self._check_token = check_token
        self._names = {
            "file",
            "purpose",
            _ANCHOR,
            _SECONDS,
            *([TOKEN] if check_token is not None else []),
        }
        self.fields: dict[str, bytes] = {}
        self.filename: bytes | None = None
        self.size = 0
        self.is_over = False
        self._ready: list[bytes] = []
        self._name = ""
        self._header = b""
        self._headers: dict[bytes, bytes] = {}
        self._value = b""

    def take(self) -> list[bytes]:
        ready, self._ready = self._ready, []
        return ready

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._part,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_end": self._end,
        }

    def _part(self) -> None:
        self._headers, self._header, self._value = {}, b"", b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header, self._value = b"", b""

    def _headers_finished(self) -> None:
        kind, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = options.get(b"name", b"").decode("utf-8", errors="replace")
        if kind != b"form-data" or name not in self._names:
            raise InputError(name[:64] or "body", "is not a field of this form", _EXPECTED)
        if name in self.fields or (name == "file" and self.filename is not None):
            raise InputError(name, "is given twice", "one field of this name")
        self._name = name
        if name == "file":
            if self._check_token is not None:
                self._check_token(self.fields.get(TOKEN, b"").decode(errors="replace"))
            self.filename = options.get(b"filename", b"")
        else:
            self.fields[name] = b""

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == "file":
            self.size += end - start
            self._ready.append(data[start:end])
            return
        self.fields[self._name] += data[start:end]
        if len(self.fields[self._name]) > _MAX_FIELD_BYTES:
            raise InputError(self._name, f"has more than {_MAX_FIELD_BYTES} bytes", _EXPECTED)

    def _end(self) -> None:
        self.is_over = True
