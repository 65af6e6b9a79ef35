"""/v1/fine_tuning/jobs/{id}/explanation: why a bid got its answer."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from auctune.domain import PricedPlan
from auctune.service.http.auth import CurrentUser, ServiceDep
from auctune.service.http.errors import ERRORS, ApiError, not_found
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.gateway import DecisionExplanation

router = APIRouter(prefix="/v1/fine_tuning/jobs", tags=["market"], responses=ERRORS)


class ExplainedCell(BaseModel):
    """What one slot on one node costs a plan; unit prices are an operator's to see."""

    slot: int
    node: str
    compute: float
    memory: float
    operating_cost: float
    traffic: float
    compute_price: float | None
    memory_price: float | None


class ExplainedPlan(BaseModel):
    """What a plan cost when the bid was decided on: `cost` is the sum of its five parts.

    `price` is the cost, rounded; a bid must exceed it. None where the bid is charged.
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
    """A decision, the plan it was about, and what others would have cost then."""

    object: str = "explanation"
    job: str
    zone: str
    decided_at: int
    decision: str
    reason: str | None
    why: str | None
    bid: str
    payment: str | None
    least_bid: str | None
    chosen: ExplainedPlan | None
    by_vendor: dict[str, ExplainedPlan | None]
    by_node_type: dict[str, ExplainedPlan | None]
    earlier: ExplainedPlan | None
    later: ExplainedPlan | None
    earliest: ExplainedPlan | None


@router.get("/{job_id}/explanation", response_model=ExplanationResponse)
async def explain(service: ServiceDep, who: CurrentUser, job_id: str) -> dict[str, Any]:
    """Why a bid got its answer, told by the market as it was just before.

    The market is rebuilt from its log, one question after the other: it may take seconds. A
    user asks one at a time.
    """
    job = await service.job(job_id, None if who.is_operator else who.user)
    if job is None:
        raise not_found("job", job_id)
    explained = await service.explanations.get(job_id, who.user)
    if explained is None:
        raise ApiError(400, "there is no decision on it to explain", "not_decided", "id")
    return _view(explained, service.clock(job.zone), has_units=who.is_operator)


def _view(explained: DecisionExplanation, clock: SlotClock, *, has_units: bool) -> dict[str, Any]:
    event, found = explained.decided, explained.explanation
    decision = event.body["decision"]
    least = found.least_bid

    def plan(one: PricedPlan | None) -> dict[str, Any] | None:
        return None if one is None else _plan(one, clock)

    chosen = plan(found.chosen)
    if chosen is not None and found.chosen is not None:
        # Of other plans only what they come to: their cells would give others' plans away.
        chosen["cells"] = _cells(found.chosen, has_units=has_units)
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
        "least_bid": None if least is None else str(least),
        "chosen": chosen,
        "by_vendor": {name: plan(one) for name, one in found.by_vendor.items()},
        "by_node_type": {name: plan(one) for name, one in found.by_node_type.items()},
        "earlier": plan(found.earlier),
        "later": plan(found.later),
        "earliest": plan(found.earliest),
    }


def _plan(plan: PricedPlan, clock: SlotClock) -> dict[str, Any]:
    return {
        "vendor": plan.schedule.vendor,
        "start": clock.slot_start(plan.schedule.start),
        "finish": clock.slot_end(plan.schedule.finish),
        "price": None if plan.price is None else str(plan.price),
        "cost": plan.cost,
        "vendor_price": plan.vendor_price,
        "operating_cost": plan.operating_cost,
        "compute": plan.compute,
        "memory": plan.memory,
        "traffic": plan.traffic,
        "cells": None,
    }


def _cells(plan: PricedPlan, *, has_units: bool) -> list[dict[str, Any]]:
    return [
        {
            "slot": cell.slot,
            "node": cell.node,
            "compute": cell.compute,
            "memory": cell.memory,
            "operating_cost": cell.operating_cost,
            "traffic": cell.traffic,
            "compute_price": cell.compute_price if has_units else None,
            "memory_price": cell.memory_price if has_units else None,
        }
        for cell in plan.cells
    ]
