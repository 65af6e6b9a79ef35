"""/v1/fine_tuning/jobs: OpenAI's fine-tuning API, with a bid."""

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ValidationError
from starlette.datastructures import QueryParams

from auctune.domain import InputError
from auctune.schema import to_input_error
from auctune.service.accounts.keys import Principal
from auctune.service.event_writer import read_job
from auctune.service.http.auth import SECURED, CurrentUser, ServiceDep, authenticate_user
from auctune.service.http.errors import ERRORS, ApiError, not_found
from auctune.service.http.schemas import Checkpoint, Job, JobEvent, Page
from auctune.service.http.serializers import JSON, checkpoint_view, event_view, job_view
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.service import Service
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.core.zone import AnyZone, is_open
from auctune.service.zones.kinds import OWNER_EVENT_TYPES

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

router = APIRouter(prefix="/v1/fine_tuning/jobs", tags=["jobs"], responses=ERRORS)
Limit = Annotated[int, Query(ge=1, le=100)]
AfterJob = Annotated[str | None, Query(pattern=r"^ftjob-[A-Za-z0-9]{1,64}$")]
AfterEvent = Annotated[str | None, Query(pattern=r"^ftevent-\d{1,18}$")]
AfterCheckpoint = Annotated[str | None, Query(pattern=r"^ftckpt-\d{1,18}$")]
_RETRY_HEADERS = [
    {"in": "header", "name": name, "required": False, "schema": schema}
    for name, schema in (
        ("Idempotency-Key", {"type": "string", "minLength": 1, "maxLength": 255}),
        ("x-stainless-retry-count", {"type": "string"}),
    )
]
_METADATA = re.compile(r"metadata\[(.{1,64})\]")
_LISTED_METADATA = {
    "in": "query",
    "name": "metadata",
    "style": "deepObject",
    "explode": True,
    "schema": {"type": "object", "additionalProperties": {"type": "string"}},
}
_PLACE = "#/components/schemas/{model}"
_SCANNED = 200
_ERRORS = 500
_MAX_NESTED = 10_000


def described_body(*models: type[BaseModel]) -> dict[str, Any]:
    """Return a body of one of these models for the OpenAPI document: its route reads it itself."""
    places = [{"$ref": _PLACE.format(model=model.__name__)} for model in models]
    schema = places[0] if len(places) == 1 else {"anyOf": places}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def described_models() -> dict[str, Any]:
    """Return the schemas that `described_body` names, and those of their parts."""
    found: dict[str, Any] = {}
    for model in (JobRequest, Acceptance):
        schema = model.model_json_schema(ref_template=_PLACE)
        found |= {**schema.pop("$defs"), model.__name__: schema}
    return found


# Bids come by the thousand a second: this route reads its request by itself, and its answer is
# not checked against its own model again.
@router.post(
    "",
    responses={200: {"model": Job}},
    openapi_extra={
        **SECURED,
        **described_body(JobRequest, Acceptance),
        "parameters": _RETRY_HEADERS,
    },
)
async def create(request: Request) -> Response:
    """Bid for a job; decided at once, and for good."""
    service: Service = request.app.state.service
    who = authenticate_user(request)
    return await submit(service, who, await request.body(), request.headers)


async def submit(
    service: Service, who: Principal, raw: bytes, headers: Mapping[str, str]
) -> Response:
    """The answer to a request for a job.

    Args:
        service: the service.
        who: asks.
        raw: the request's body.
        headers: of the request, by names in small letters; they say whether it is made again.
    """
    body = read_request(raw)
    if isinstance(body, JobRequest) and body.market.what_if:
        return _json(_shown(service, await service.submissions.preview(who, body)))
    name, is_retry = _retry(headers)
    reply = service.replies.key_for(who.key, name, raw)
    earlier = await service.replies.find(reply, is_retry=is_retry)
    if earlier is not None:
        return _json(await _view(service, who, earlier))
    _check_quota(service, who, len(raw))
    answer = service.replies.start(reply)
    try:
        row = await service.submissions.submit(who, body, reply)
    except BaseException as error:
        service.replies.discard(reply)
        answer.set_exception(error)
        raise
    answer.set_result(row.id)
    return _json(_shown(service, row))


def _check_quota(service: Service, who: Principal, size: int) -> None:
    """Count a bid, pause or resume, whose record is kept for good, whatever becomes of it.

    Args:
        service: the service.
        who: asks.
        size: bytes of the request's body.

    Raises:
        ApiError: 429 if the user has used up its quota of them, or of their bytes.
    """
    for bucket, count, what in (
        (service.bids, 1, "bids, pauses and resumes"),
        (service.bid_bytes, size, "bytes of bids"),
    ):
        wait = bucket.acquire(who.user, count)
        if wait > 0:
            raise ApiError(
                429,
                f"the quota of {what} of a day is used up; try again in {math.ceil(wait)} s",
                "quota_exceeded",
                headers={"Retry-After": f"{math.ceil(wait)}"},
            )


def read_request(raw: bytes) -> JobRequest | Acceptance:
    """The body of a request for a job: a bid, or the acceptance of a quote's line.

    Raises:
        InputError: for the first field that is wrong.
    """
    _check_nesting(raw)
    try:
        request = JobRequest.model_validate_json(raw)
    except ValidationError as error:
        value = _json_of(raw)
        if _names_quote(value):
            return _read_acceptance(raw)
        raise _named(error, value, JobRequest) from None
    if request.market.quote is not None:
        return _read_acceptance(raw)
    if request.market.line is not None:
        raise InputError("market.line", "is given", "none without market.quote")
    return request


def read_body(raw: bytes, model: type[M]) -> M:
    """Return a request's body as one of these.

    Raises:
        InputError: for the first field that is wrong.
    """
    _check_nesting(raw)
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise _named(error, _json_of(raw), model) from None


def _read_acceptance(raw: bytes) -> Acceptance:
    accepted = read_body(raw, Acceptance)
    if accepted.market.what_if:
        raise InputError(
            "market.what_if", "is set with market.quote", "a bid: a quote is an answer already"
        )
    return accepted


def _check_nesting(raw: bytes) -> None:
    """Refuse a body of very many lists or objects.

    80,000 empty lists fit into 256 kB, and take half a second to parse, in which nobody else is
    answered. Brackets within strings count too, of which no sensible request has so many.
    """
    count = raw.count(b"[") + raw.count(b"{")
    if count > _MAX_NESTED:
        found = f"has {count} lists and objects"
        raise InputError("body", found, f"a request with at most {_MAX_NESTED}")


def _json_of(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except ValueError as error:
        raise InputError("body", f"is not valid JSON ({error})", "a JSON object") from None


def _names_quote(value: Any) -> bool:
    terms = value.get("market") if isinstance(value, dict) else None
    return isinstance(terms, dict) and terms.get("quote") is not None


def _named(error: ValidationError, value: Any, model: type[BaseModel]) -> InputError:
    # Listing them takes a second for 180 kB, in which nobody else is answered.
    if (count := error.error_count()) > _ERRORS:
        return InputError("body", f"has {count} keys or values that are wrong", "a request")
    wrong = to_input_error(error, "", value, model)
    place = wrong.place.removeprefix(": ").replace(": ", ".")
    return InputError(place or "body", wrong.found, wrong.expected)


@router.get("", response_model=Page[Job], openapi_extra={"parameters": [_LISTED_METADATA]})
async def list_jobs(
    service: ServiceDep,
    who: CurrentUser,
    request: Request,
    after: AfterJob = None,
    limit: Limit = 20,
) -> Response:
    """Jobs of one's own, newest first."""
    wanted = _metadata_filter(request.query_params)
    if wanted is None:
        page = await asyncio.to_thread(service.pages.jobs, who.user, limit, after)
        rows, has_more = [read_job(row) for row in page.items], page.has_more
    else:
        # One search of a user's at a time: each goes through all of the user's jobs.
        async with service.searches.acquire([who.user]):
            rows, has_more = await _filter_jobs(service, who.user, wanted, limit, after)
    data = [_shown(service, row) for row in rows]
    return _json({"object": "list", "data": data, "has_more": has_more})


@router.get("/{job_id}", response_model=Job)
async def retrieve(service: ServiceDep, who: CurrentUser, job_id: str) -> Response:
    """One job."""
    return _json(await _view(service, who, job_id))


@router.post("/{job_id}/cancel", response_model=Job)
async def cancel(service: ServiceDep, who: CurrentUser, job_id: str) -> Response:
    """End a job; its cells to come go back to the market, and nothing is refunded."""
    await _run_on_open_job(service, who, job_id, lambda zone: zone.cancel(job_id))
    return _json(await _view(service, who, job_id))


@router.post("/{job_id}/pause", response_model=Job)
async def pause(service: ServiceDep, who: CurrentUser, job_id: str) -> Response:
    """Give up a job's cells to come, until it is resumed."""
    _check_quota(service, who, 0)
    await _run_on_open_job(service, who, job_id, lambda zone: zone.pause(job_id))
    return _json(await _view(service, who, job_id))


@router.post("/{job_id}/resume", response_model=Job)
async def resume(service: ServiceDep, who: CurrentUser, job_id: str) -> Response:
    """Find a paused job new cells, at no new charge, before its deadline.

    In zones of kind `auction` and `edge` they are worth no more than those it gave up were.
    """
    _check_quota(service, who, 0)
    if not await _run_on_open_job(service, who, job_id, lambda zone: zone.resume(job_id)):
        raise ApiError(
            400, "what is left of the nodes cannot finish it by its deadline", "no_capacity", "id"
        )
    return _json(await _view(service, who, job_id))


@router.get("/{job_id}/events", response_model=Page[JobEvent])
async def list_events(
    service: ServiceDep, who: CurrentUser, job_id: str, after: AfterEvent = None, limit: Limit = 20
) -> Response:
    """What happened to a job, newest first."""
    job = await own_job(service, who, job_id)
    last = None if after is None else int(after.removeprefix("ftevent-"))
    page = await asyncio.to_thread(service.pages.events, job_id, OWNER_EVENT_TYPES, limit, last)
    told = service.views(job.zone).messages
    data = [event_view(row, told) for row in page.items]
    return _json({"object": "list", "data": data, "has_more": page.has_more})


@router.get("/{job_id}/checkpoints", response_model=Page[Checkpoint])
async def list_checkpoints(
    service: ServiceDep,
    who: CurrentUser,
    job_id: str,
    after: AfterCheckpoint = None,
    limit: Limit = 10,
) -> Response:
    """Where a job could be taken up again, newest first."""
    job = await own_job(service, who, job_id)
    last = None if after is None else int(after.removeprefix("ftckpt-"))
    page = await asyncio.to_thread(service.pages.events, job_id, [EventType.TRAINED], limit, last)
    data = [checkpoint_view(row, job) for row in page.items]
    return _json({"object": "list", "data": data, "has_more": page.has_more})


async def own_job(service: Service, who: Principal, job: str) -> JobReadModel:
    """A job of one's own.

    Raises:
        ApiError: 404, whether there is none or it is somebody else's.
    """
    row = await service.job(job, who.user)
    if row is None:
        raise not_found("job", job)
    return row


def _retry(headers: Mapping[str, str]) -> tuple[str | None, bool]:
    """A request's idempotency key, and whether its client says that it tries again."""
    name = headers.get("idempotency-key")
    if name is not None and not 1 <= len(name) <= 255:
        raise InputError("Idempotency-Key", f"has {len(name)} characters", "1 to 255 characters")
    return name, headers.get("x-stainless-retry-count", "0") not in ("", "0")


def _metadata_filter(query: QueryParams) -> dict[str, str] | None:
    """The metadata that jobs must have to be listed; nothing in it: they must have none."""
    if query.get("metadata") == "null":
        return {}
    pairs = ((_METADATA.fullmatch(name), value) for name, value in query.multi_items())
    return {found[1]: value for found, value in pairs if found} or None


async def _filter_jobs(
    service: Service, owner: str, wanted: dict[str, str], limit: int, after: str | None
) -> tuple[list[JobReadModel], bool]:
    """Return jobs of an owner with this metadata, and whether there are more.

    All of the owner's jobs may have to be gone through: in pieces, between which the threads are
    free for others.
    """
    found: list[JobReadModel] = []
    while True:
        rows, has_more = await asyncio.to_thread(_scan, service, owner, wanted, after)
        for row, is_wanted in rows:
            if is_wanted and len(found) == limit:
                return found, True
            if is_wanted:
                found.append(row)
        if not has_more:
            return found, False
        after = rows[-1][0].id


def _scan(
    service: Service, owner: str, wanted: dict[str, str], after: str | None
) -> tuple[list[tuple[JobReadModel, bool]], bool]:
    """Return the next jobs, whether each is wanted, and whether there are more."""
    page = service.pages.jobs(owner, _SCANNED, after)
    rows = [read_job(stored) for stored in page.items]
    metadata = [row.body["request"]["metadata"] or {} for row in rows]
    are_wanted = [wanted.items() <= has.items() if wanted else not has for has in metadata]
    return list(zip(rows, are_wanted, strict=True)), page.has_more


def _shown(service: Service, row: JobReadModel) -> JSON:
    return job_view(row, service.views(row.zone), service.clock(row.zone))


async def _view(service: Service, who: Principal, job: str) -> JSON:
    return _shown(service, await own_job(service, who, job))


async def _run_on_open_job(
    service: Service, who: Principal, job: str, run: Callable[[AnyZone], T]
) -> T:
    """Have a zone do something with a job of one's own that is not over.

    Raises:
        ApiError: 404, as `own_job`; `job_over`; `zone_closed`.
    """
    row = await own_job(service, who, job)
    over = ApiError(400, "the job is over", "job_over", "id")
    if row.body["finished_at"] is not None:
        raise over
    zone = service.zones.get(row.zone)
    if zone is None:
        raise ApiError(400, f"zone {row.zone} is closed", "zone_closed", "id")

    def run_if_open(actor: AnyZone) -> T:
        # It may have ended since it was looked at, or end with the slots that have passed.
        actor.begin_slots()
        if not is_open(actor, job):
            raise over
        return run(actor)

    return await zone.actor.call(run_if_open)


def _json(body: JSON) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")
