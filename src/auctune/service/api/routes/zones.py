"""/v1/zones: what the market offers; prices, use and plans for operators."""

import asyncio
from collections.abc import Container
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel

from auctune.domain import InputError
from auctune.service.api.access import MarketDep, Operator, Owner
from auctune.service.api.errors import ERRORS, not_found
from auctune.service.market import Market
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.open_zone import OpenZone

router = APIRouter(prefix="/v1/zones", tags=["market"], responses=ERRORS)


class ZoneView(BaseModel):
    """A zone, as everybody sees it."""

    id: str
    object: str = "zone"
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
    data: list[ZoneView]
    has_more: bool = False


class NodeState(BaseModel):
    """A node of a zone: `up`, `lost`, or `drained` by an operator."""

    id: str
    type: str
    state: Literal["up", "lost", "drained"]


class PriceTable(BaseModel):
    """Prices and use of every cell of the window; arrays [slot, node]."""

    zone: str
    first_slot: int
    first_begins_at: float
    slot_seconds: float
    nodes: list[NodeState]
    compute_price: list[list[float]]
    memory_price: list[list[float]]
    compute_used: list[list[float]]
    memory_used: list[list[float]]


@router.get("", response_model=ZonePage)
async def list_zones(market: MarketDep, who: Owner) -> dict[str, Any]:
    """The zones that take bids."""
    data = [_view(market, zone) for zone in market.zones.values()]
    return {"object": "list", "data": data, "has_more": False}


@router.get("/{zone_id}", response_model=ZoneView)
async def retrievezone_of(market: MarketDep, who: Owner, zone_id: str) -> dict[str, Any]:
    """One zone."""
    return _view(market, zone_of(market, zone_id))


@router.get("/{zone_id}/prices", response_model=PriceTable)
async def prices(market: MarketDep, who: Operator, zone_id: str) -> dict[str, Any]:
    """Prices and use by slot and node: an operator's, as a step of a price gives a bid away."""
    found = zone_of(market, zone_id)

    def read(zone: AuctionZone) -> dict[str, Any]:
        zone.begin_slots()
        state = zone.mechanism.state()
        lost, drained = zone.state.lost, zone.state.drained
        return {
            "zone": zone.name,
            "first_slot": state.first_slot,
            "first_begins_at": zone.clock.begins(state.first_slot),
            "slot_seconds": zone.clock.slot_seconds,
            "nodes": [
                {"id": n.id, "type": n.type, "state": _state(n.id, lost, drained)}
                for n in zone.supply.cluster.nodes
            ],
            "compute_price": state.compute_price.tolist(),
            "memory_price": state.memory_price.tolist(),
            "compute_used": state.compute_used.tolist(),
            "memory_used": state.memory_used.tolist(),
        }

    return await asyncio.wrap_future(found.desk.ask(read))


@router.post("/{zone_id}/nodes/{node_id}/drain", response_model=ZoneView)
async def drain(market: MarketDep, who: Operator, zone_id: str, node_id: str) -> dict[str, Any]:
    """Take a node off the market; what it was to run is planned anew, or refunded."""
    found = _node(market, zone_id, node_id)
    await asyncio.wrap_future(
        found.desk.ask(lambda zone: zone.drain_node(node_id, "drained by an operator"))
    )
    return _view(market, found)


@router.post("/{zone_id}/nodes/{node_id}/return", response_model=ZoneView)
async def give_back(market: MarketDep, who: Operator, zone_id: str, node_id: str) -> dict[str, Any]:
    """Put a node on the market again."""
    found = _node(market, zone_id, node_id)
    await asyncio.wrap_future(found.desk.ask(lambda zone: zone.return_node(node_id)))
    return _view(market, found)


@router.post("/{zone_id}/pause", response_model=ZoneView)
async def pause(market: MarketDep, who: Operator, zone_id: str) -> dict[str, Any]:
    """Take no more bids; what was admitted goes on."""
    found = zone_of(market, zone_id)
    await market.pauses.pause(found.name)
    return _view(market, found)


@router.post("/{zone_id}/resume", response_model=ZoneView)
async def resume(market: MarketDep, who: Operator, zone_id: str) -> dict[str, Any]:
    """Take bids again."""
    found = zone_of(market, zone_id)
    await market.pauses.resume(found.name)
    return _view(market, found)


def zone_of(market: Market, name: str) -> OpenZone:
    """A zone by its name.

    Raises:
        ApiError: 404 if there is none.
    """
    zone = market.zones.get(name)
    if zone is None:
        raise not_found("zone", name)
    return zone


def _state(node: str, lost: Container[str], drained: Container[str]) -> str:
    return "drained" if node in drained else "lost" if node in lost else "up"


def _node(market: Market, zone_id: str, node_id: str) -> OpenZone:
    zone = zone_of(market, zone_id)
    known = [node.id for node in zone.supply.cluster.nodes]
    if node_id not in known:
        raise InputError("node_id", f"{node_id!r} is unknown", f"one of {', '.join(known)}")
    return zone


def _view(market: Market, zone: OpenZone) -> dict[str, Any]:
    clock, cluster = zone.clock, zone.supply.cluster
    slot = clock.slot()
    return {
        "id": zone.name,
        "object": "zone",
        "model": zone.supply.base,
        "slot_seconds": clock.slot_seconds,
        "slots": cluster.slots,
        "num_nodes": len(cluster.nodes),
        "slot": slot,
        "slot_ends_at": clock.ends(slot),
        "latest_deadline": clock.ends(slot + cluster.slots - 1),
        "takes_bids": zone.name not in market.pauses.paused,
    }
