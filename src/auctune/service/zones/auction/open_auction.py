"""An auction's zone that is open: what requests speak to."""

from dataclasses import dataclass

from auctune.service.config.zone import AUCTION
from auctune.service.jobs.datasets import TrainingData
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import reject_unsupported, unsupported_field
from auctune.service.zones.auction.bidding import AuctionBidding
from auctune.service.zones.auction.supply import Supply
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.bidding_zone import BiddingZone
from auctune.service.zones.clock import SlotClock

# Terms of other kinds. A value is what a bid is, and a cap on the cost is kept by bidding no more.
_FOREIGN = ("target_loss", "sites")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAuction(BiddingZone[AuctionZone, AuctionBidding]):
    """One zone.

    Attributes:
        supply: what it offers.
        clock: its slots.
        files: of its jobs.
    """

    supply: Supply
    clock: SlotClock
    files: TrainingData

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        return AUCTION

    @property
    def base(self) -> str:
        """Name of the base model that it trains."""
        return self.supply.base

    @property
    def num_slots(self) -> int:
        """How many slots from now on it looks ahead."""
        return self.supply.cluster.slots

    @property
    def num_nodes(self) -> int:
        """How many nodes it has."""
        return len(self.supply.cluster.nodes)

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        foreign = unsupported_field(request, *_FOREIGN)
        if foreign is not None:
            return f"does not support {foreign}"
        if request.market.repair and not self.files.has_vendors:
            return "has no vendor that could repair data"
        return None

    def _check(self, request: JobRequest) -> None:
        reject_unsupported(request, self.name, AUCTION, *_FOREIGN)
