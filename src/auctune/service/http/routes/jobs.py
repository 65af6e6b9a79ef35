"""/v1/fine_tuning/jobs: OpenAI's fine-tuning API, extended by a bid; /v1/quotes: its prices."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, TypeVar

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.datastructures import QueryParams

from auctune.domain import InputError
from auctune.service.accounts.registry import Principal
from auctune.service.event_writer import read_job
from auctune.service.http.errors import ERRORS, ApiError, not_found, retry_after
from auctune.service.http.requests import (
    SECURED,
    CurrentUser,
    ServiceDep,
    authenticate_user,
    body_schema,
    read_body,
    read_request,
)
from auctune.service.http.schemas import (
    AlternativeResponse,
    Checkpoint,
    DefaultTerm,
    EstimateResponse,
    Job,
    JobEvent,
    Page,
)
from auctune.service.http.serializers import (
    JSON,
    checkpoint_id,
    checkpoint_view,
    event_view,
    job_view,
    json_in_thread,
    page_view,
    quote_view,
)
from auctune.service.identifiers import JOB_ID
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.service import Service
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.core.zone import AnyZone

T = TypeVar("T")

router = APIRouter(prefix="/v1/fine_tuning/jobs", tags=["jobs"], responses=ERRORS)
Limit = Annotated[int, Query(ge=1, le=100)]
AfterJob = Annotated[str | None, Query(pattern=f"^{JOB_ID}$")]
AfterEvent = Annotated[str | None, Query(pattern=r"^ftevent-\d{1,18}$")]
AfterCheckpoint = Annotated[str | None, Query(pattern=r"^ftckpt-[A-Za-z0-9]{1,64}$")]
_RETRY_HEADERS = [
    {"in": "header", "name": name, "required": False, "schema": schema}
    for name, schema in (
        ("Idempotency-Key", {"type": "string", "minLength": 1, "maxLength": 255}),
        ("x-stainless-retry-count", {"type": "string"}),
    )
]
_METADATA = re.compile(r"metadata\[(.*)\]", re.DOTALL)
_METADATA_PARAMETER = {
    "in": "query",
    "name": "metadata",
    "style": "deepObject",
    "explode": True,
    "schema": {"type": "object", "additionalProperties": {"type": "string"}},
}


# Hundreds of bids may arrive in a second, and FastAPI's dependencies take a sixth of a bid's time:
# this route parses its body itself, and has none but what all routes check.
@router.post(
    "",
    responses={200: {"model": Job}},
    openapi_extra={
        **SECURED,
        **body_schema(JobRequest, Acceptance),
        "parameters": _RETRY_HEADERS,
    },
)
async def create(request: Request) -> Response:
    """Submit a bid for a job. The decision is immediate and final."""
    service: Service = request.app.state.service
    who = authenticate_user(request)
    return _json(await submit(service, who, await request.body(), request.headers))


async def submit(service: Service, who: Principal, raw: bytes, headers: Mapping[str, str]) -> JSON:
    """Decide on a bid, and return its job. The headers, with lower-case names, mark retries."""
    body = read_request(raw)
    if isinstance(body, JobRequest) and body.market.what_if:
        return _job(service, await service.submissions.preview(who, body))
    name, is_retry = _retry(headers)
    key = service.idempotency.key_for(who.key, name, raw)
    earlier = await service.idempotency.find(key, is_retry=is_retry)
    if earlier is not None:
        return await retrieve_job(service, who, earlier)
    _check_daily_quota(service, who, len(raw))
    result = service.idempotency.start(key)
    try:
        row = await service.submissions.submit(who, body, key)
    except BaseException as error:
        service.idempotency.discard(key)
        result.set_exception(error)
        raise
    result.set_result(row.id)
    return _job(service, row)


def _check_daily_quota(service: Service, who: Principal, size: int) -> None:
    """Count a bid, pause or resume against daily quotas: its event is stored permanently."""
    for bucket, count, what in (
        (service.bids, 1, "bids, pauses and resumes"),
        (service.bid_bytes, size, "bytes of bids"),
    ):
        wait = bucket.acquire(who.user, count)
        if wait > 0:
            raise ApiError(
                429,
                f"daily quota of {what} exhausted; try again in {math.ceil(wait)} s",
                "quota_exceeded",
                headers=retry_after(wait),
            )


@router.get("", response_model=Page[Job], openapi_extra={"parameters": [_METADATA_PARAMETER]})
async def list_jobs(
    service: ServiceDep,
    who: CurrentUser,
    request: Request,
    after: AfterJob = None,
    limit: Limit = 20,
) -> Response:
    """List the user's jobs, newest first."""
    metadata = _metadata_filter(request.query_params)
    return await json_in_thread(lambda: read_jobs(service, who, limit, after, metadata))


def read_jobs(
    service: Service,
    who: Principal,
    limit: int,
    after: str | None,
    metadata: Mapping[str, str] | None = None,
) -> JSON:
    """Return a page of the user's jobs, newest first."""
    page = service.queries.jobs(who.user, limit, after, metadata=metadata)
    data = [_job(service, read_job(row)) for row in page.items]
    return page_view(data, has_more=page.has_more)


@router.get("/{job_id}", response_model=Job)
async def retrieve(service: ServiceDep, who: CurrentUser, job_id: str) -> Response:
    """Return a job."""
    return _json(await retrieve_job(service, who, job_id))


@router.post("/{job_id}/cancel", response_model=Job)
async def cancel(service: ServiceDep, who: CurrentUser, job_id: str) -> Response:
    """Cancel a job. Its remaining cells return to the market; nothing is refunded."""
    await _run_on_open_job(service, who, job_id, lambda zone: zone.cancel(job_id))
    return _json(await retrieve_job(service, who, job_id))


@router.post("/{job_id}/pause", response_model=Job)
async def pause(service: ServiceDep, who: CurrentUser, job_id: str) -> Response:
    """Pause a job: its remaining cells return to the market until it is resumed."""
    _check_daily_quota(service, who, 0)
    await _run_on_open_job(service, who, job_id, lambda zone: zone.pause(job_id))
    return _json(await retrieve_job(service, who, job_id))


@router.post("/{job_id}/resume", response_model=Job)
async def resume(service: ServiceDep, who: CurrentUser, job_id: str) -> Response:
    """Resume a paused job with new cells before its deadline, at no extra charge.

    In zones of kind `auction` and `edge` they are worth at most as much as those it gave up.
    """
    _check_daily_quota(service, who, 0)
    if not await _run_on_open_job(service, who, job_id, lambda zone: zone.resume(job_id)):
        raise ApiError(
            400, "the free capacity cannot finish the job by its deadline", "no_capacity", "id"
        )
    return _json(await retrieve_job(service, who, job_id))


@router.get("/{job_id}/events", response_model=Page[JobEvent])
async def list_events(
    service: ServiceDep, who: CurrentUser, job_id: str, after: AfterEvent = None, limit: Limit = 20
) -> Response:
    """List the events of a job, newest first."""
    job = await own_job(service, who, job_id)
    return await json_in_thread(lambda: read_events(service, job.zone, job_id, limit, after))


def read_events(service: Service, zone: str, job: str, limit: int, after: str | None) -> JSON:
    """Return a page of the events of a job of a zone, newest first."""
    messages = service.projection(zone).messages
    last = None if after is None else int(after.removeprefix("ftevent-"))
    page = service.queries.events(limit, last, job=job, types=tuple(map(str, messages)))
    data = [event_view(row, messages) for row in page.items]
    return page_view(data, has_more=page.has_more)


@router.get("/{job_id}/checkpoints", response_model=Page[Checkpoint])
async def list_checkpoints(
    service: ServiceDep,
    who: CurrentUser,
    job_id: str,
    after: AfterCheckpoint = None,
    limit: Limit = 10,
) -> Response:
    """List the adapters of a finished job's last epochs, newest first."""
    job = await own_job(service, who, job_id)
    checkpoints = job.body["checkpoints"][::-1]
    if after is not None:
        ids = [checkpoint_id(one) for one in checkpoints]
        if after not in ids:
            raise not_found("checkpoint", after)
        checkpoints = checkpoints[ids.index(after) + 1 :]
    data = [checkpoint_view(job, one) for one in checkpoints[:limit]]
    return _json(page_view(data, has_more=len(checkpoints) > limit))


async def own_job(service: Service, who: Principal, job: str) -> JobReadModel:
    """Return the row of a user's own job; raise 404 for any other."""
    row = await service.job(job, who.user)
    if row is None:
        raise not_found("job", job)
    return row


def _retry(headers: Mapping[str, str]) -> tuple[str | None, bool]:
    name = headers.get("idempotency-key")
    if name is not None and not 1 <= len(name) <= 255:
        raise InputError("Idempotency-Key", f"has {len(name)} characters", "1 to 255 characters")
    return name, headers.get("x-stainless-retry-count", "0") not in ("", "0")


def _metadata_filter(query: QueryParams) -> dict[str, str] | None:
    """Return the metadata that jobs must have; {}: they must have none; None: no filter."""
    if query.get("metadata") == "null":
        return {}
    metadata: dict[str, str] = {}
    for name, value in query.items():
        if name.startswith("metadata"):
            match = _METADATA.fullmatch(name)
            if match is None:
                raise InputError(name, "is not a filter", "metadata[KEY]=VALUE or metadata=null")
            metadata[match[1]] = value
    return metadata or None


def _job(service: Service, row: JobReadModel) -> JSON:
    return job_view(row, service.projection(row.zone), service.clock(row.zone))


async def retrieve_job(service: Service, who: Principal, job: str) -> JSON:
    """Return a user's own job."""
    return _job(service, await own_job(service, who, job))


async def _run_on_open_job(
    service: Service, who: Principal, job: str, run: Callable[[AnyZone], T]
) -> T:
    """Run a command on the zone of a user's own open job."""
    row = await own_job(service, who, job)
    over = ApiError(400, "the job is over", "job_over", "id")
    if row.body["finished_at"] is not None:
        raise over
    zone = service.zones.get(row.zone)
    if zone is None:
        raise ApiError(400, f"zone {row.zone} is closed", "zone_closed", "id")

    def run_if_open(actor: AnyZone) -> T:
        # It may have ended since the check above, or end with slots that have passed.
        actor.begin_slots()
        if not actor.is_open(job):
            raise over
        return run(actor)

    return await zone.actor.call(run_if_open)


def _json(body: JSON) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")


quote_router = APIRouter(prefix="/v1/quotes", tags=["market"], responses=ERRORS)


class QuoteLine(BaseModel):
    """A price for a finish time; available until the plan's `start`."""

    line: int
    price: str
    finish: float
    finish_time: str
    start: float
    start_time: str
    vendor: str | None
    slots: int


class QuoteResponse(BaseModel):
    """A menu, earliest finish first, each line cheaper than the one before. It reserves nothing.

    A metered zone has no lines, but an estimate, which is not binding.

    If the request names no zone and several have the model, the quote is that of the default zone,
    and `alternatives` lists the offers of all of them.

    `notes` state what training will leave out of the data, as those of a job do.

    `default_terms` are terms that the request did not state, by field of `market`.

    Times are unix seconds, and RFC 3339 in fields named `*_time`.
    """

    id: str
    object: str = "quote"
    created_at: int
    expires_at: int
    expires_time: str
    zone: str
    kind: str
    model: str
    training_file: str
    seed: int
    lines: list[QuoteLine]
    estimate: EstimateResponse | None
    alternatives: list[AlternativeResponse]
    default_terms: dict[str, DefaultTerm]
    notes: list[str]


# FastAPI would list all errors of a body, which can take seconds.
@quote_router.post("", response_model=QuoteResponse, openapi_extra=body_schema(JobRequest))
async def ask_quote(service: ServiceDep, who: CurrentUser, request: Request) -> JSON:
    """Price a job. A bid is optional and has no effect."""
    return await create_quote(service, who, read_body(await request.body(), JobRequest))


async def create_quote(service: Service, who: Principal, body: JobRequest) -> JSON:
    """Create a quote, and return it as an API object."""
    return quote_view(await service.submissions.quote(who, body))


@quote_router.get("/{quote_id}", response_model=QuoteResponse)
async def retrieve_quote(service: ServiceDep, who: CurrentUser, quote_id: str) -> JSON:
    """Return a quote of the last hour."""
    quote = service.quotes.get(quote_id, who.user)
    if quote is None:
        raise not_found("quote", quote_id)
    return quote_view(quote)
