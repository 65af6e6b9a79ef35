"""Reading requests: JSON bodies and query parameters. Nothing in them is ignored silently."""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import orjson
from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import QueryParams

from auctune.domain import InputError
from auctune.schema import to_input_error
from auctune.service.inference.requests import ChatRequest, CompletionRequest
from auctune.service.jobs.request import Acceptance, JobRequest

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
