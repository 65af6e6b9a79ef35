"""An auction's memory in words, as a zone's keeper asks for it."""

from typing import Any

from auctune.service.zones.auction.snapshot import ZoneSaver
from auctune.service.zones.auction.zone import AuctionZone


class AuctionSaver:
    """Of one zone."""

    def __init__(self) -> None:
        self._saver = ZoneSaver()

    def seq(self, zone: AuctionZone) -> int:
        """Of the newest event that the memory knows."""
        return zone.state.seq

    def prepare(self, zone: AuctionZone) -> bool:
        """Put some jobs into words ahead of `save`; whether all are."""
        return self._saver.prepare(zone.state)

    def save(self, zone: AuctionZone) -> dict[str, Any]:
        """All that the zone remembers."""
        return self._saver.save(zone.state, zone.mechanism)
