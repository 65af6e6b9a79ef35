"""The kinds of zones that there are, by name."""

from collections.abc import Mapping
from typing import Any

from auctune.service.config.zone import AUCTION, EDGE, SPOT, TIMESHARE
from auctune.service.zones.auction.kind import AuctionKind
from auctune.service.zones.core.kind import ZoneKind
from auctune.service.zones.edge.kind import EdgeKind
from auctune.service.zones.spot.kind import SpotKind
from auctune.service.zones.timeshare.kind import TimeshareKind

KINDS: Mapping[str, ZoneKind] = {
    AUCTION: AuctionKind(),
    SPOT: SpotKind(),
    TIMESHARE: TimeshareKind(),
    EDGE: EdgeKind(),
}

OWNER_EVENT_TYPES: tuple[str, ...] = tuple(
    dict.fromkeys(str(name) for kind in KINDS.values() for name in kind.views.messages)
)
"""Kinds of events that are news to a job's owner, in any zone."""


def kind_from_created_event(body: Mapping[str, Any]) -> ZoneKind:
    """The kind that the event with which a zone opened says; older ones say none."""
    return KINDS[body.get("kind", AUCTION)]
