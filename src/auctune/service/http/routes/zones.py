"""/v1/zones: what the market offers; prices, use and plans for operators."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from auctune.domain import InputError
from auctune.service.http.auth import CurrentUser, OperatorUser, ServiceDep
from auctune.service.http.errors import ERRORS, ApiError, not_found
from auctune.service.service import Service
from auctune.service.zones.core.gateway import AnyGateway, NodeAdmin

router = APIRouter(prefix="/v1/zones", tags=["market"], responses=ERRORS)


class ZoneResponse(BaseModel):
    """A zone, as everybody sees it."""

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
    takes_bids: bool


class ZonePage(BaseModel):
    """All zones."""

    object: str = "list"
    data: list[ZoneResponse]
    has_more: bool = False


class NodeState(BaseModel):
    """A node of a zone: `up`, `lost`, or `drained` by an operator."""

    id: str
    type: str
    state: Literal["up", "lost", "drained"]


class PriceTable(BaseModel):
    """Prices and use of every cell of the window; arrays [slot, node]."""

    kind: Literal["auction"]
    zone: str
    first_slot: int
    first_begins_at: float
    slot_seconds: float
    nodes: list[NodeState]
    compute_price: list[list[float]]
    memory_price: list[list[float]]
    compute_used: list[list[float]]
    memory_used: list[list[float]]


class RentedSlot(BaseModel):
    """A slot: prices in units of the on-demand price, and what all jobs of the zone hold in it."""

    slot: int
    begins_at: float
    price: float
    available: int
    on_demand: int
    spot: int


class RentedTable(BaseModel):
    """The market and the holdings of a zone that rents, its newest slots, the oldest first.

    `unit_cost` is what an on-demand instance costs the service for a slot, `unit_price` what it
    costs the owners of jobs.
    """

    kind: Literal["spot"]
    zone: str
    slot_seconds: float
    unit_cost: float
    unit_price: float
    slots: list[RentedSlot]


class PoolJob(BaseModel):
    """A job that shares a pool; times are unix seconds."""

    job: str
    user: str
    state: str
    target_loss: float
    best_loss: float | None
    share: float
    finish: float | None
    deadline: float
    verdict: str | None
    cost: str


class PoolUnit(BaseModel):
    """A unit of time of a pool, and each job's share of it."""

    unit: int
    begins_at: float
    span: float
    shares: dict[str, float]


class PoolTable(BaseModel):
    """Who shares a pool, and how it was shared, the newest units last."""

    kind: Literal["timeshare"]
    zone: str
    slot_seconds: float
    jobs: list[PoolJob]
    units: list[PoolUnit]


class SiteState(BaseModel):
    """A site of an `edge` zone: `up`, or `lost`."""

    id: str
    capacity: dict[str, float]
    state: Literal["up", "lost"]


class SiteJobView(BaseModel):
    """A job at the sites: the slots of its plan, and those that are trained."""

    job: str
    user: str
    state: str
    slots: list[int]
    trained: list[int]
    torn: int


class SiteTable(BaseModel):
    """Prices and use of an `edge` zone: arrays [slot, site, type], and of traffic [slot]."""

    kind: Literal["edge"]
    zone: str
    first_slot: int
    first_begins_at: float
    slot_seconds: float
    types: list[str]
    sites: list[SiteState]
    price: list[list[list[float]]]
    used: list[list[list[float]]]
    traffic_price: list[float]
    traffic_used_mb: list[float]
    traffic_mb_per_slot: float
    jobs: list[SiteJobView]


ZoneState = Annotated[PriceTable | RentedTable | PoolTable | SiteTable, Field(discriminator="kind")]


@router.get("", response_model=ZonePage)
async def list_zones(service: ServiceDep, who: CurrentUser) -> dict[str, Any]:
    """The zones that take bids."""
    data = [_view(service, zone) for zone in service.zones.values()]
    return {"object": "list", "data": data, "has_more": False}


@router.get("/{zone_id}", response_model=ZoneResponse)
async def retrieve_zone(service: ServiceDep, who: CurrentUser, zone_id: str) -> dict[str, Any]:
    """One zone."""
    return _view(service, zone_of(service, zone_id))


@router.get("/{zone_id}/state", response_model=ZoneState)
async def state(service: ServiceDep, who: OperatorUser, zone_id: str) -> dict[str, Any]:
    """Return what an operator sees of a zone: prices, use, jobs; fields depend on its `kind`.

    For operators: a change of a price gives away a bid, and jobs of all users are listed.
    """
    return await zone_of(service, zone_id).inspect()


@router.post("/{zone_id}/nodes/{node_id}/drain", response_model=ZoneResponse)
async def drain(
    service: ServiceDep, who: OperatorUser, zone_id: str, node_id: str
) -> dict[str, Any]:
    """Take a node off the market; what it was to run is planned anew, or refunded."""
    found = zone_of(service, zone_id)
    await _with_node(found, node_id).drain(node_id)
    return _view(service, found)


@router.post("/{zone_id}/nodes/{node_id}/return", response_model=ZoneResponse)
async def give_back(
    service: ServiceDep, who: OperatorUser, zone_id: str, node_id: str
) -> dict[str, Any]:
    """Put a node on the market again."""
    found = zone_of(service, zone_id)
    await _with_node(found, node_id).return_node(node_id)
    return _view(service, found)


@router.post("/{zone_id}/pause", response_model=ZoneResponse)
async def pause(service: ServiceDep, who: OperatorUser, zone_id: str) -> dict[str, Any]:
    """Take no more bids; what was admitted goes on."""
    found = zone_of(service, zone_id)
    await service.pauses.pause(found.name)
    return _view(service, found)


@router.post("/{zone_id}/resume", response_model=ZoneResponse)
async def resume(service: ServiceDep, who: OperatorUser, zone_id: str) -> dict[str, Any]:
    """Take bids again."""
    found = zone_of(service, zone_id)
    await service.pauses.resume(found.name)
    return _view(service, found)


def zone_of(service: Service, name: str) -> AnyGateway:
    """A zone by its name.

    Raises:
        ApiError: 404 if there is none.
    """
    zone = service.zones.get(name)
    if zone is None:
        raise not_found("zone", name)
    return zone


def _nodes(zone: AnyGateway) -> NodeAdmin:
    """A zone's nodes.

    Raises:
        ApiError: 404 if it has none of its own.
    """
    if zone.nodes is None:
        raise ApiError(404, f"zone {zone.name} has no nodes of its own", "not_found", "id")
    return zone.nodes


def _with_node(zone: AnyGateway, node: str) -> NodeAdmin:
    nodes = _nodes(zone)
    if node not in nodes.names:
        known = ", ".join(nodes.names)
        raise InputError("node_id", f"{node!r} is unknown", f"one of {known}")
    return nodes


def _view(service: Service, zone: AnyGateway) -> dict[str, Any]:
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
        "takes_bids": zone.name not in service.pauses.paused,
    }
