"""The kinds of zones that there are, by name."""

from collections.abc import Mapping
from typing import Any

from auctune.service.config.zone import AUCTION, EDGE, SPOT, TIMESHARE
from auctune.service.zones.auction.kind import AuctionZones
from auctune.service.zones.edge.kind import EdgeZones
from auctune.service.zones.kind import ZoneKind
from auctune.service.zones.spot.kind import SpotZones
from auctune.service.zones.timeshare.kind import TimeshareZones

KINDS: Mapping[str, ZoneKind] = {
    AUCTION: AuctionZones(),
    SPOT: SpotZones(),
    TIMESHARE: TimeshareZones(),
    EDGE: EdgeZones(),
}

TOLD: tuple[str, ...] = tuple(
    dict.fromkeys(str(name) for kind in KINDS.values() for name in kind.views.messages)
)
"""Kinds of events that are news to a job's owner, in any zone."""


def kind_of_opening(body: Mapping[str, Any]) -> ZoneKind:
    """The kind that the event with which a zone opened says; older ones say none."""
    return KINDS[body.get("kind", AUCTION)]
