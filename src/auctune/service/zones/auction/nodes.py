"""An auction's nodes, as an operator sees them: prices and use, drained and given back."""

from collections.abc import Container
from typing import Any

from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.actor import ZoneActor


class AuctionNodeAdmin:
    """Of one zone.

    Args:
        actor: its thread.
        names: ids of its nodes.
    """

    def __init__(self, actor: ZoneActor[AuctionZone], names: tuple[str, ...]) -> None:
        self._actor = actor
        self._names = names

    @property
    def names(self) -> tuple[str, ...]:
        """Their ids."""
        return self._names

    async def prices(self) -> dict[str, Any]:
        """Prices and use by slot and node, arrays [slot, node]."""
        return await self._actor.call(_prices)

    async def drain(self, node: str) -> None:
        """Take one off the market; what it was to run is planned anew, or refunded."""
        await self._actor.call(lambda zone: zone.drain_node(node, "drained by an operator"))

    async def return_node(self, node: str) -> None:
        """Put one on the market again."""
        await self._actor.call(lambda zone: zone.return_node(node))


def _prices(zone: AuctionZone) -> dict[str, Any]:
    zone.begin_slots()
    state = zone.mechanism.state()
    lost, drained = zone.state.lost, zone.state.drained
    return {
        "zone": zone.name,
        "first_slot": state.first_slot,
        "first_begins_at": zone.clock.slot_start(state.first_slot),
        "slot_seconds": zone.clock.slot_seconds,
        "nodes": [
            {"id": node.id, "type": node.type, "state": _state(node.id, lost, drained)}
            for node in zone.supply.cluster.nodes
        ],
        "compute_price": state.compute_price.tolist(),
        "memory_price": state.memory_price.tolist(),
        "compute_used": state.compute_used.tolist(),
        "memory_used": state.memory_used.tolist(),
    }


def _state(node: str, lost: Container[str], drained: Container[str]) -> str:
    return "drained" if node in drained else "lost" if node in lost else "up"
