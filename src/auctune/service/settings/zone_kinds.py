"""Zones of any kind in auctune.toml: the key `kind` says which, and so which keys there are."""

from typing import Annotated

from auctune.schema import ByKind
from auctune.service.settings.auction_entry import AuctionEntry
from auctune.service.settings.edge_entry import EdgeEntry
from auctune.service.settings.spot_entry import SpotEntry
from auctune.service.settings.timeshare_entry import TimeshareEntry
from auctune.service.settings.zone_entry import AUCTION, EDGE, SPOT, TIMESHARE, ZoneEntry

_ENTRIES = {AUCTION: AuctionEntry, SPOT: SpotEntry, TIMESHARE: TimeshareEntry, EDGE: EdgeEntry}

AnyZone = Annotated[ZoneEntry, ByKind(_ENTRIES, AUCTION)]
