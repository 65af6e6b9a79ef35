"""/v1/fine_tuning/jobs: OpenAI's fine-tuning API, with a bid."""

import asyncio
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

from auctune.service.access.key import Principal
from auctune.service.api.access import MarketDep, Owner
from auctune.service.api.answers import Checkpoint, Job, JobEvent, Page
from auctune.service.api.errors import ERRORS, ApiError, not_found
from auctune.service.api.views import Shown, checkpoint_view, event_view, job_view
from auctune.service.jobs.request import JobRequest
from auctune.service.market import Market
from auctune.service.recorder import read_job
from auctune.service.store.event_log import EventRow
from auctune.service.zone.job_row import JobRow
from auctune.service.zone.zone import Zone

router = APIRouter(prefix="/v1/fine_tuning/jobs", tags=["jobs"], responses=ERRORS)
Limit = Annotated[int, Query(ge=1, le=100)]
After = Annotated[str | None, Query(max_length=80)]


@router.post("", response_model=Job)
async def create(
    market: MarketDep,
    who: Owner,
    request: Request,
    body: JobRequest,
    idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
    x_stainless_retry_count: Annotated[str | None, Header()] = None,
) -> Response:
    """Bid for a job; decided at once, and for good."""
    raw = await request.body()
    return await bid(market, who, body, raw, idempotency_key, x_stainless_retry_count)


async def bid(
    market: Market,
    who: Principal,
    body: JobRequest,
    raw: bytes,
    idempotency_key: str | None,
    retry_count: str | None,
) -> Response:
    """The answer to a bid; the same one if it is made again."""
    if body.market.what_if:
        return _json(await _preview(market, who, body))
    reply = market.replies.name(who.key, idempotency_key, raw)
    is_retry = (retry_count or "0") not in ("", "0")
    earlier = await market.replies.earlier(reply, is_retry=is_retry)
    if earlier is not None:
        return _json(await _view(market, who, earlier))
    answer = market.replies.begin(reply)
    try:
        row = await market.submissions.submit(who, body, reply)
    except BaseException as error:
        market.replies.forget(reply)
        answer.set_exception(error)
        raise
    answer.set_result(row.id)
    return _json(job_view(row, market.zones[row.zone].clock))


@router.get("", response_model=Page[Job])
async def list_jobs(
    market: MarketDep, who: Owner, after: After = None, limit: Limit = 20
) -> Response:
    """Jobs of one's own, newest first."""
    page = await asyncio.to_thread(market.pages.jobs, who.user, limit, after)
    data = [job_view(read_job(row), market.zones[row.zone].clock) for row in page.items]
    return _json({"object": "list", "data": data, "has_more": page.has_more})


@router.get("/{job_id}", response_model=Job)
async def retrieve(market: MarketDep, who: Owner, job_id: str) -> Response:
    """One job."""
    return _json(await _view(market, who, job_id))


@router.post("/{job_id}/cancel", response_model=Job)
async def cancel(market: MarketDep, who: Owner, job_id: str) -> Response:
    """End a job; its cells to come go back to the market, and nothing is refunded."""
    row = await _own(market, who, job_id)
    if not await _ask(market, row, lambda zone: zone.cancel(job_id)):
        raise ApiError(400, "the job is over", "job_over", "id")
    return _json(await _view(market, who, job_id))


@router.post("/{job_id}/pause", response_model=Job)
async def pause(market: MarketDep, who: Owner, job_id: str) -> Response:
    """Give up a job's cells to come, until it is resumed."""
    row = await _own(market, who, job_id)
    await _ask(market, row, lambda zone: zone.pause(job_id))
    return _json(await _view(market, who, job_id))


@router.post("/{job_id}/resume", response_model=Job)
async def resume(market: MarketDep, who: Owner, job_id: str) -> Response:
    """Find a paused job new cells, at no new charge, if there are any before its deadline."""
    row = await _own(market, who, job_id)
    if not await _ask(market, row, lambda zone: zone.resume(job_id)):
        raise ApiError(
            400, "what is left of the nodes cannot finish it by its deadline", "no_capacity", "id"
        )
    return _json(await _view(market, who, job_id))


@router.get("/{job_id}/events", response_model=Page[JobEvent])
async def list_events(
    market: MarketDep, who: Owner, job_id: str, after: After = None, limit: Limit = 20
) -> Response:
    """What happened to a job, newest first."""
    await _own(market, who, job_id)
    rows = await asyncio.to_thread(market.log.of_job, job_id)
    shown = [view for row in reversed(rows) if (view := event_view(row)) is not None]
    return _json(_cut(shown, after, limit))


@router.get("/{job_id}/checkpoints", response_model=Page[Checkpoint])
async def list_checkpoints(
    market: MarketDep, who: Owner, job_id: str, after: After = None, limit: Limit = 10
) -> Response:
    """Where a job could be taken up again, newest first."""
    job = await _own(market, who, job_id)
    rows = await asyncio.to_thread(market.log.of_job, job_id)

    def view(row: EventRow) -> Shown | None:
        return checkpoint_view(row, job)

    shown = [found for row in reversed(rows) if (found := view(row)) is not None]
    return _json(_cut(shown, after, limit))


async def _preview(market: Market, who: Principal, body: JobRequest) -> Shown:
    row = await market.submissions.preview(who, body)
    return job_view(row, market.zones[row.zone].clock)


async def _view(market: Market, who: Principal, job: str) -> Shown:
    row = await _own(market, who, job)
    return job_view(row, market.zones[row.zone].clock)


async def _own(market: Market, who: Principal, job: str) -> JobRow:
    row = await market.job(job, who.user)
    if row is None:
        raise not_found("job", job)
    return row


async def _ask(market: Market, row: JobRow, run: Any) -> Any:
    def command(zone: Zone) -> Any:
        return run(zone)

    return await asyncio.wrap_future(market.zones[row.zone].desk.ask(command))


def _cut(shown: list[Shown], after: str | None, limit: int) -> Shown:
    """The page after one of its items."""
    start = 0
    if after is not None:
        ids = [view["id"] for view in shown]
        if after not in ids:
            raise ApiError(400, f"there is no {after!r} in this list", "invalid_value", "after")
        start = ids.index(after) + 1
    page = shown[start : start + limit]
    return {"object": "list", "data": page, "has_more": start + limit < len(shown)}


def _json(body: Shown) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")
