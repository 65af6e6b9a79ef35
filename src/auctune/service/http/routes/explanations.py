"""/v1/fine_tuning/jobs/{id}/explanation: the reasons of a decision."""

from dataclasses import asdict

from fastapi import APIRouter
from pydantic import BaseModel

from auctune.domain import PricedPlan
from auctune.domain.explanation import PricedCell
from auctune.service.http.auth import CurrentUser, ServiceDep
from auctune.service.http.errors import ERRORS, ApiError, not_found
from auctune.service.http.serializers import JSON
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.explainer import DecisionExplanation

router = APIRouter(prefix="/v1/fine_tuning/jobs", tags=["market"], responses=ERRORS)
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


@router.get("/{job_id}/explanation", response_model=ExplanationResponse)
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
    return _view(explained, service.clock(job.zone), has_units=who.is_operator)


def _unexplained(job: JobReadModel, *, is_closed: bool) -> ApiError:
    if job.body["decision"] is None:
        return ApiError(400, "the job has no decision to explain", "not_decided", "id")
    if is_closed:
        return ApiError(400, f"zone {job.zone} is closed", "zone_closed", "id")
    message = f"zone {job.zone} has no more to explain than the decision that the job shows"
    return ApiError(400, message, "not_explained", "id")


def _view(explained: DecisionExplanation, clock: SlotClock, *, has_units: bool) -> JSON:
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
