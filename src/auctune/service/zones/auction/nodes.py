"""An auction's nodes, as an operator sees them: drained and given back."""

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

    async def drain(self, node: str) -> None:
        """Take one off the market; what it was to run is planned anew, or refunded."""
        await self._actor.call(lambda zone: zone.drain_node(node, "drained by an operator"))

    async def return_node(self, node: str) -> None:
        """Put one on the market again."""
        await self._actor.call(lambda zone: zone.return_node(node))
