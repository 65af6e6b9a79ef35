"""Table of the kinds of zones, by name."""

from collections.abc import Mapping
from typing import Any

from auctune.service.config.zone import AUCTION, EDGE, SPOT, TIMESHARE
from auctune.service.zones.auction.kind import AuctionKind
from auctune.service.zones.core.kind import ZoneKind
from auctune.service.zones.edge.kind import EdgeKind
from auctune.service.zones.spot.kind import SpotKind
from auctune.service.zones.timeshare.kind import TimeshareKind

KINDS: Mapping[str, ZoneKind[Any]] = {
    AUCTION: AuctionKind(),
    SPOT: SpotKind(),
    TIMESHARE: TimeshareKind(),
    EDGE: EdgeKind(),
}

OWNER_EVENT_TYPES: tuple[str, ...] = tuple(
    dict.fromkeys(str(name) for kind in KINDS.values() for name in kind.views.messages)
)
"""Types of the events that a job's owner is shown, in any zone."""
