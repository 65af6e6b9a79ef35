"""/v1/zones/{id}/decisions and /plans: everybody's, for operators."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from auctune.service.event_writer import read_job
from auctune.service.http.auth import OperatorUser, ServiceDep
from auctune.service.http.errors import ERRORS
from auctune.service.http.routes.zones import zone_of
from auctune.service.http.schemas import JobProgress, MeteredFields, Plan, TargetFields
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.kind import Projection
from auctune.service.zones.core.read_model import JobReadModel, Status

router = APIRouter(prefix="/v1/zones", tags=["market"], responses=ERRORS)
After = Annotated[str | None, Query(pattern=r"^ftjob-[A-Za-z0-9]{1,64}$")]
Limit = Annotated[int, Query(ge=1, le=1000)]


class DecisionResponse(BaseModel):
    """A bid, and what became of it; `plan` is as it stands now."""

    job: str
    object: str = "decision"
    user: str
    created_at: int
    finished_at: int | None
    status: str
    state: str
    decision: str | None
    reason: str | None
    bid: str | None
    price: str | None
    payment: str | None
    value: float | None
    surplus: float | None
    refunded: bool
    plan: Plan | None
    progress: JobProgress | None
    metered: MeteredFields | None
    target: TargetFields | None


class DecisionPage(BaseModel):
    """Bids of all users, newest first."""

    object: str = "list"
    data: list[DecisionResponse]
    has_more: bool


@router.get("/{zone_id}/decisions", response_model=DecisionPage)
async def decisions(
    service: ServiceDep, who: OperatorUser, zone_id: str, after: After = None, limit: Limit = 100
) -> dict[str, Any]:
    """All bids of a zone, newest first."""
    zone = zone_of(service, zone_id)
    clock, views = zone.clock, service.views(zone.name)
    page = await asyncio.to_thread(service.pages.jobs, None, limit, after, zone_id)
    data = [_view(read_job(row), views, clock) for row in page.items]
    return {"object": "list", "data": data, "has_more": page.has_more}


@router.get("/{zone_id}/plans", response_model=DecisionPage)
async def plans(
    service: ServiceDep, who: OperatorUser, zone_id: str, after: After = None, limit: Limit = 1000
) -> dict[str, Any]:
    """Admitted jobs that are not over: which cells each has."""
    zone = zone_of(service, zone_id)
    clock, views = zone.clock, service.views(zone.name)
    under_way = [Status.QUEUED.value, Status.RUNNING.value]
    page = await asyncio.to_thread(service.pages.jobs, None, limit, after, zone_id, under_way)
    data = [_view(read_job(row), views, clock) for row in page.items]
    return {"object": "list", "data": data, "has_more": page.has_more}


def _view(row: JobReadModel, views: Projection, clock: SlotClock) -> dict[str, Any]:
    shown = views.market(row, clock)
    decision, finished = row.body["decision"] or {}, row.body["finished_at"]
    return {
        "job": row.id,
        "object": "decision",
        "user": row.owner,
        "created_at": int(row.created_at),
        "finished_at": None if finished is None else int(finished),
        "status": row.status.value,
        "price": decision.get("price"),
        "value": decision.get("value"),
        "surplus": decision.get("surplus"),
        "metered": shown.get("metered"),
        "target": shown.get("target"),
        **{
            name: shown[name]
            for name in (
                "state",
                "decision",
                "reason",
                "bid",
                "payment",
                "refunded",
                "plan",
                "progress",
            )
        },
    }
