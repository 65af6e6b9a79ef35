"""Decisions and plans of all users' jobs, for operators, and the explanation of a decision."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, TypeAdapter

from auctune.domain import PricedPlan
from auctune.domain.explanation import PricedCell
from auctune.engine.unix_time import SlotClock
from auctune.service.event_writer import read_job
from auctune.service.http.errors import ERRORS, ApiError, not_found
from auctune.service.http.requests import CurrentUser, OperatorUser, ServiceDep
from auctune.service.http.routes.jobs import AfterJob
from auctune.service.http.routes.zones import zone_of
from auctune.service.http.schemas import JobOutcome, Page
from auctune.service.http.serializers import JSON, json_in_thread, page_view
from auctune.service.service import Service
from auctune.service.storage.queries import JobReadModel, Status
from auctune.service.zones.core.projection import JobProjection
from auctune.service.zones.core.snapshots import DecisionExplanation

router = APIRouter(prefix="/v1", tags=["market"], responses=ERRORS)
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


@router.get("/zones/{zone_id}/decisions", response_model=Page[DecisionResponse])
async def decisions(
    service: ServiceDep, who: OperatorUser, zone_id: str, after: AfterJob = None, limit: Limit = 100
) -> Response:
    """List all bids of a zone, newest first."""
    return await json_in_thread(lambda: _checked(read_bids(service, zone_id, limit, after)))


@router.get("/zones/{zone_id}/plans", response_model=Page[DecisionResponse])
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
    data = [_decision(read_job(row), projection, zone.clock) for row in page.items]
    return page_view(data, has_more=page.has_more)


def _checked(page: JSON) -> JSON:
    """Return a page without the fields that the model of a decision does not have."""
    checked: JSON = _PAGE.dump_python(_PAGE.validate_python(page), mode="json")
    return checked


def _decision(row: JobReadModel, projection: JobProjection[Any], clock: SlotClock) -> JSON:
    decision, finished = row.body["decision"] or {}, row.body["finished_at"]
    return {
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


_AMOUNTS = ("cost", "vendor_price", "operating_cost", "compute", "memory", "traffic")


class ExplainedCell(BaseModel):
    """Cost of one slot on one node for a plan; unit prices are shown to operators only."""

    slot: int
    node: str
    compute: float
    memory: float
    operating_cost: float
    traffic: float
    compute_price: float | None
    memory_price: float | None


class ExplainedPlan(BaseModel):
    """Cost of a plan at the time of the decision: `cost` is the sum of its five parts.

    `price` is the rounded cost, which a bid must exceed; null where the bid itself is charged.
    """

    vendor: str | None
    start: float
    finish: float
    price: str | None
    cost: float
    vendor_price: float
    operating_cost: float
    compute: float
    memory: float
    traffic: float
    cells: list[ExplainedCell] | None


class ExplanationResponse(BaseModel):
    """A decision, its plan, and the costs of other plans at that time."""

    object: str = "explanation"
    job: str
    zone: str
    decided_at: int
    decision: str
    reason: str | None
    why: str | None
    bid: str
    payment: str | None
    min_bid: str | None
    chosen: ExplainedPlan | None
    by_vendor: dict[str, ExplainedPlan | None]
    by_node_type: dict[str, ExplainedPlan | None]
    earlier: ExplainedPlan | None
    later: ExplainedPlan | None
    earliest: ExplainedPlan | None


@router.get("/fine_tuning/jobs/{job_id}/explanation", response_model=ExplanationResponse)
async def explain(service: ServiceDep, who: CurrentUser, job_id: str) -> JSON:
    """Explain the decision on a bid, with the prices and capacity just before it.

    The zone's state is rebuilt from the log, which can take seconds. Requests are processed one
    after the other, with at most one pending request a user.
    """
    job = await service.job(job_id, None if who.is_operator else who.user)
    if job is None:
        raise not_found("job", job_id)
    explained = await service.explanations.get(job_id, who.user)
    if explained is None:
        raise _unexplained(job, is_closed=job.zone not in service.zones)
    return _explanation(explained, service.clock(job.zone), has_units=who.is_operator)


def _unexplained(job: JobReadModel, *, is_closed: bool) -> ApiError:
    if job.body["decision"] is None:
        return ApiError(400, "the job has no decision to explain", "not_decided", "id")
    if is_closed:
        return ApiError(400, f"zone {job.zone} is closed", "zone_closed", "id")
    message = f"zone {job.zone} has no more to explain than the decision that the job shows"
    return ApiError(400, message, "not_explained", "id")


def _explanation(explained: DecisionExplanation, clock: SlotClock, *, has_units: bool) -> JSON:
    event, explanation = explained.decided, explained.explanation
    decision = event.body["decision"]

    def plan(priced: PricedPlan | None) -> JSON | None:
        return None if priced is None else _plan(priced, clock)

    chosen = plan(explanation.chosen)
    if chosen is not None and explanation.chosen is not None:
        # For other plans only the totals: their cells would reveal plans of other users.
        chosen["cells"] = [_cell(cell, has_units=has_units) for cell in explanation.chosen.cells]
    return {
        "object": "explanation",
        "job": event.job,
        "zone": event.zone,
        "decided_at": int(event.at),
        "decision": "admitted" if decision["admitted"] else "rejected",
        "reason": decision["reason"],
        "why": explained.why,
        "bid": event.body["request"]["bid"],
        "payment": decision["payment"] if decision["admitted"] else None,
        "min_bid": None if explanation.min_bid is None else str(explanation.min_bid),
        "chosen": chosen,
        "by_vendor": {name: plan(one) for name, one in explanation.by_vendor.items()},
        "by_node_type": {name: plan(one) for name, one in explanation.by_node_type.items()},
        "earlier": plan(explanation.earlier),
        "later": plan(explanation.later),
        "earliest": plan(explanation.earliest),
    }


def _plan(plan: PricedPlan, clock: SlotClock) -> JSON:
    return {
        "vendor": plan.schedule.vendor,
        "start": clock.slot_start(plan.schedule.start),
        "finish": clock.slot_end(plan.schedule.finish),
        "price": None if plan.price is None else str(plan.price),
        "cells": None,
        **{name: getattr(plan, name) for name in _AMOUNTS},
    }


def _cell(cell: PricedCell, *, has_units: bool) -> JSON:
    hidden = {} if has_units else {"compute_price": None, "memory_price": None}
    return {**asdict(cell), **hidden}
