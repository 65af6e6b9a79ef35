"""/v1/zones: zones for all users; their state and management for operators."""

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel

from auctune.domain import InputError
from auctune.service.fair_queue import in_thread
from auctune.service.http.errors import ERRORS, ApiError, not_found
from auctune.service.http.requests import CurrentUser, OperatorUser, ServiceDep
from auctune.service.http.schemas import Page
from auctune.service.http.serializers import JSON, page_view
from auctune.service.service import Service
from auctune.service.zones.core.gateway import AnyGateway
from auctune.service.zones.core.sections import NodeState, Section

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
