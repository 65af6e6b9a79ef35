"""/v1/zones: zones for all users; their state and management for operators."""

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from auctune.domain import InputError
from auctune.service.http.auth import CurrentUser, OperatorUser, ServiceDep
from auctune.service.http.errors import ERRORS, ApiError, not_found
from auctune.service.http.schemas import Page
from auctune.service.http.serializers import JSON, page_view
from auctune.service.service import Service
from auctune.service.zones.core.gateway import AnyGateway

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
    """A slot: price relative to on demand, and instances available and held by all jobs."""

    slot: int
    begins_at: float
    price: float
    available: int
    on_demand: int
    spot: int


class RentedTable(BaseModel):
    """Spot market and instances of a zone that rents, by slot, oldest first.

    `unit_cost` is the cost of an on-demand instance for a slot, `unit_price` its price for users.
    """

    kind: Literal["spot"]
    zone: str
    slot_seconds: float
    unit_cost: float
    unit_price: float
    slots: list[RentedSlot]


class PoolJob(BaseModel):
    """A job of a pool; times are unix seconds."""

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
    """A quantum of a pool, and each job's share of it."""

    unit: int
    begins_at: float
    span: float
    shares: dict[str, float]


class PoolTable(BaseModel):
    """Jobs of a pool, and its shares by quantum, oldest first."""

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
    """A job at the sites: slots of its plan, and those that are trained."""

    job: str
    user: str
    state: str
    slots: list[int]
    trained: list[int]
    failed_slots: int


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


class OtherState(BaseModel):
    """State of a zone of an installed package's kind, with the fields of that kind."""

    model_config = ConfigDict(extra="allow")

    kind: str
    zone: str
    slot_seconds: float


ZoneState = Annotated[
    Annotated[
        PriceTable | RentedTable | PoolTable | SiteTable,
        Field(discriminator="kind"),
    ]
    | OtherState,
    Field(union_mode="left_to_right"),
]


@router.get("", response_model=Page[ZoneResponse])
async def list_zones(service: ServiceDep, who: CurrentUser) -> JSON:
    """List all zones."""
    data = [_view(service, zone) for zone in service.zones.values()]
    return page_view(data)


@router.get("/{zone_id}", response_model=ZoneResponse)
async def retrieve_zone(service: ServiceDep, who: CurrentUser, zone_id: str) -> JSON:
    """Return a zone."""
    return _view(service, zone_of(service, zone_id))


@router.get("/{zone_id}/state", response_model=ZoneState)
async def state(service: ServiceDep, who: OperatorUser, zone_id: str) -> JSON:
    """Return prices, use and jobs of a zone; the fields depend on its `kind`.

    For operators only: a change of a price reveals a bid, and jobs of all users are listed.
    """
    return await zone_of(service, zone_id).inspect()


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
