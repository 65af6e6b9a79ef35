"""/v1/zones: zones for all users; their state and management for operators.

Decisions and plans of all users' jobs, for operators, and the explanation of a decision.
"""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, TypeAdapter

from auctune.domain import InputError, PricedPlan
from auctune.domain.explanation import PricedCell
from auctune.engine.unix_time import SlotClock
from auctune.service.event_writer import read_job
from auctune.service.fair_queue import in_thread
from auctune.service.http.errors import ERRORS, ApiError, not_found
from auctune.service.http.requests import CurrentUser, OperatorUser, ServiceDep
from auctune.service.http.routes.jobs import AfterJob
from auctune.service.http.schemas import JobOutcome, Page
from auctune.service.http.serializers import JSON, json_in_thread, page_view
from auctune.service.service import Service
from auctune.service.storage.queries import JobReadModel, Status
from auctune.service.zones.core.gateway import AnyGateway
from auctune.service.zones.core.projection import JobProjection
from auctune.service.zones.core.sections import NodeState, Section
from auctune.service.zones.core.snapshots import DecisionExplanation

router = APIRouter(prefix="/v1/zones", tags=["market"], responses=ERRORS)


class ZoneResponse(BaseModel):
    """A zone."""

    id: str
    object: str = "zone"
    kind: str
    model: str
    slot_seconds: float
    slots: int
    num_nodes: int
    slot: int
    slot_ends_at: float
    latest_deadline: float
    accepting_bids: bool


class ZoneStateResponse(BaseModel):
    """State of a zone, in sections that depend on its `kind`.

    `nodes` are those that an operator can drain; null for a zone that has none of its own.
    """

    kind: str
    zone: str
    slot_seconds: float
    nodes: tuple[NodeState, ...] | None
    sections: tuple[Section, ...]


@router.get("", response_model=Page[ZoneResponse])
async def list_zones(service: ServiceDep, who: CurrentUser) -> JSON:
    """List all zones."""
    data = [_view(service, zone) for zone in service.zones.values()]
    return page_view(data)


@router.get("/{zone_id}", response_model=ZoneResponse)
async def retrieve_zone(service: ServiceDep, who: CurrentUser, zone_id: str) -> JSON:
    """Return a zone."""
    return _view(service, zone_of(service, zone_id))


@router.get("/{zone_id}/state", response_model=ZoneStateResponse)
async def state(service: ServiceDep, who: OperatorUser, zone_id: str) -> Response:
    """Return prices, use and jobs of a zone as tables.

    For operators only: a change of a price reveals a bid, and jobs of all users are listed.
    """
    zone = zone_of(service, zone_id)
    view = await zone.inspect()
    response = ZoneStateResponse(
        kind=zone.kind,
        zone=zone.name,
        slot_seconds=zone.clock.slot_seconds,
        nodes=view.nodes,
        sections=view.sections,
    )
    body = await in_thread(response.model_dump_json)
    return Response(body, media_type="application/json")


@router.post("/{zone_id}/nodes/{node_id}/drain", response_model=ZoneResponse)
async def drain(service: ServiceDep, who: OperatorUser, zone_id: str, node_id: str) -> JSON:
    """Take a node off the market; its jobs are replanned or refunded."""
    zone = zone_of(service, zone_id)
    _check_node(zone, node_id)
    await zone.drain(node_id)
    return _view(service, zone)


@router.post("/{zone_id}/nodes/{node_id}/return", response_model=ZoneResponse)
async def give_back(service: ServiceDep, who: OperatorUser, zone_id: str, node_id: str) -> JSON:
    """Return a drained node to the market."""
    zone = zone_of(service, zone_id)
    _check_node(zone, node_id)
    await zone.return_node(node_id)
    return _view(service, zone)


@router.post("/{zone_id}/pause", response_model=ZoneResponse)
async def pause(service: ServiceDep, who: OperatorUser, zone_id: str) -> JSON:
    """Stop accepting bids; admitted jobs continue."""
    zone = zone_of(service, zone_id)
    await service.pauses.pause(zone.name)
    return _view(service, zone)


@router.post("/{zone_id}/resume", response_model=ZoneResponse)
async def resume(service: ServiceDep, who: OperatorUser, zone_id: str) -> JSON:
    """Accept bids again."""
    zone = zone_of(service, zone_id)
    await service.pauses.resume(zone.name)
    return _view(service, zone)


def zone_of(service: Service, name: str) -> AnyGateway:
    """Return a zone by its name; raise 404 if it does not exist."""
    zone = service.zones.get(name)
    if zone is None:
        raise not_found("zone", name)
    return zone


def _check_node(zone: AnyGateway, node: str) -> None:
    if zone.nodes is None:
        raise ApiError(404, f"zone {zone.name} has no nodes of its own", "not_found", "id")
    if node not in zone.nodes:
        known = ", ".join(zone.nodes)
        raise InputError("node_id", f"{node!r} is unknown", f"one of {known}")


def _view(service: Service, zone: AnyGateway) -> JSON:
    clock = zone.clock
    slot = clock.slot()
    return {
        "id": zone.name,
        "object": "zone",
        "kind": zone.kind,
        "model": zone.base,
        "slot_seconds": clock.slot_seconds,
        "slots": zone.num_slots,
        "num_nodes": zone.num_nodes,
        "slot": slot,
        "slot_ends_at": clock.slot_end(slot),
        "latest_deadline": clock.slot_end(slot + zone.num_slots - 1),
        "accepting_bids": zone.name not in service.pauses.paused,
    }


decision_router = APIRouter(prefix="/v1", tags=["market"], responses=ERRORS)
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


@decision_router.get("/zones/{zone_id}/decisions", response_model=Page[DecisionResponse])
async def decisions(
    service: ServiceDep, who: OperatorUser, zone_id: str, after: AfterJob = None, limit: Limit = 100
) -> Response:
    """List all bids of a zone, newest first."""
    return await json_in_thread(lambda: _checked(read_bids(service, zone_id, limit, after)))


@decision_router.get("/zones/{zone_id}/plans", response_model=Page[DecisionResponse])
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


@decision_router.get("/fine_tuning/jobs/{job_id}/explanation", response_model=ExplanationResponse)
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
