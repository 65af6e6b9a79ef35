"""/v1/zones/{id}/decisions and /plans: jobs of all users, for operators."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import TypeAdapter

from auctune.service.event_writer import read_job
from auctune.service.http.auth import OperatorUser, ServiceDep
from auctune.service.http.errors import ERRORS
from auctune.service.http.routes.jobs import AfterJob
from auctune.service.http.routes.zones import zone_of
from auctune.service.http.schemas import JobOutcome, Page
from auctune.service.http.serializers import JSON, json_in_thread, page_view
from auctune.service.service import Service
from auctune.service.storage.queries import JobReadModel, Status
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.projection import JobProjection

router = APIRouter(prefix="/v1/zones", tags=["market"], responses=ERRORS)
Limit = Annotated[int, Query(ge=1, le=100)]


ADMITTED = (Status.QUEUED.value, Status.RUNNING.value)
"""Statuses of admitted jobs that are not over."""


class DecisionResponse(JobOutcome):
    """A bid of any user, its decision and current plan."""

    job: str
    object: str = "decision"
    user: str
    created_at: int
    finished_at: int | None
    status: str
    value: float | None
    surplus: float | None


_PAGE = TypeAdapter(Page[DecisionResponse])


@router.get("/{zone_id}/decisions", response_model=Page[DecisionResponse])
async def decisions(
    service: ServiceDep, who: OperatorUser, zone_id: str, after: AfterJob = None, limit: Limit = 100
) -> Response:
    """List all bids of a zone, newest first."""
    return await json_in_thread(lambda: _checked(read_bids(service, zone_id, limit, after)))


@router.get("/{zone_id}/plans", response_model=Page[DecisionResponse])
async def plans(
    service: ServiceDep,
    who: OperatorUser,
    zone_id: str,
    after: AfterJob = None,
    limit: Limit = 100,
) -> Response:
    """List the admitted jobs of a zone that are not over, with their plans."""
    return await json_in_thread(
        lambda: _checked(read_bids(service, zone_id, limit, after, ADMITTED))
    )


def read_bids(
    service: Service,
    zone_id: str,
    limit: int,
    after: str | None = None,
    statuses: tuple[str, ...] | None = None,
) -> JSON:
    """Return a page of the bids of a zone, with some statuses or any, newest first."""
    zone = zone_of(service, zone_id)
    projection = service.projection(zone.name)
    page = service.queries.jobs_of_zone(zone_id, limit, after, statuses)
    data = [_view(read_job(row), projection, zone.clock) for row in page.items]
    return page_view(data, has_more=page.has_more)


def _checked(page: JSON) -> JSON:
    """Return a page without the fields that the model of a decision does not have."""
    checked: JSON = _PAGE.dump_python(_PAGE.validate_python(page), mode="json")
    return checked


def _view(row: JobReadModel, projection: JobProjection[Any], clock: SlotClock) -> JSON:
    decision, finished = row.body["decision"] or {}, row.body["finished_at"]
    return {
        "metered": None,
        "target": None,
        # The response model drops the fields that a decision does not have, and the name, which
        # is for the page.
        **projection.market(row, clock),
        "job": row.id,
        "name": (row.body["request"]["metadata"] or {}).get("name"),
        "user": row.owner,
        "created_at": int(row.created_at),
        "finished_at": None if finished is None else int(finished),
        "status": row.status.value,
        "price": decision.get("price"),
        "value": decision.get("value"),
        "surplus": decision.get("surplus"),
    }
