"""Kinds of zones, by name: auctune's own, and those of installed packages.

A package offers a kind as an entry point of the group `auctune.zone_kinds`; see
docs/how-to/add-a-zone-kind.md.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from auctune.domain import InputError
from auctune.service.config.zone import AUCTION, EDGE, SPOT, TIMESHARE
from auctune.service.zones.auction.kind import AuctionKind
from auctune.service.zones.core.kind import ZoneKind
from auctune.service.zones.edge.kind import EdgeKind
from auctune.service.zones.spot.kind import SpotKind
from auctune.service.zones.timeshare.kind import TimeshareKind
from auctune.third_party import ZONE_KINDS, load_entry

KINDS: Mapping[str, ZoneKind[Any]] = {
    AUCTION: AuctionKind(),
    SPOT: SpotKind(),
    TIMESHARE: TimeshareKind(),
    EDGE: EdgeKind(),
}
"""Auctune's own kinds."""


@cache
def find_kind(name: str) -> ZoneKind[Any]:
    """Return a kind of zone; a package that offers it is loaded at the first call."""
    expected = "an instance of a subclass of ZoneKind"
    loaded = load_entry(ZONE_KINDS, name, KINDS, "zone kind", expected)
    if loaded is None:
        if name not in KINDS:
            found = f"{name!r} is unknown"
            raise InputError("zone kind", found, "the package that offers it to be installed")
        return KINDS[name]
    kind, who = loaded
    if not isinstance(kind, ZoneKind):
        raise InputError("zone kind", f"{who} is {type(kind).__name__}", expected)
    return kind
