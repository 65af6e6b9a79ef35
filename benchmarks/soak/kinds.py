"""The kinds of zones that are soaked side by side."""

from soak.auction_kind import AuctionKind
from soak.edge_kind import EdgeKind
from soak.kind import SoakKind
from soak.spot_kind import SpotKind
from soak.timeshare_kind import TimeshareKind

KINDS: tuple[SoakKind, ...] = (AuctionKind(), SpotKind(), TimeshareKind(), EdgeKind())
