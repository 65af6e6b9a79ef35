"""An auction's zone that is open: what requests speak to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from auctune.service.access.key import Principal
from auctune.service.files.record import FileRecord
from auctune.service.jobs.asked import Defaults
from auctune.service.jobs.job_files import JobFiles
from auctune.service.jobs.reply import Reply
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.terms import check_own_terms, foreign_term
from auctune.service.quotes import Quote
from auctune.service.settings.zone_entry import AUCTION
from auctune.service.zones.auction.bidding import Bidding
from auctune.service.zones.auction.explaining import AuctionExplainer
from auctune.service.zones.auction.nodes import AuctionNodes
from auctune.service.zones.auction.quoting import Quoting
from auctune.service.zones.auction.supply import Supply
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.desk import Desk
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.offer import Alternatives, Priced

T = TypeVar("T")

# Terms of other kinds. A value is what a bid is, and a cap on the cost is kept by bidding no more.
_FOREIGN = ("target_loss", "sites")


@dataclass(frozen=True, slots=True)
class OpenAuction:
    """One zone.

    Attributes:
        desk: decides.
        supply: what it offers.
        clock: its slots.
        defaults: what it chooses where requests do not.
        files: of its jobs.
        bidding: takes bids.
        quoting: shows prices, and takes lines that were shown.
        nodes: as an operator sees them.
        explainer: of its decisions.
    """

    desk: Desk[AuctionZone]
    supply: Supply
    clock: SlotClock
    defaults: Defaults
    files: JobFiles
    bidding: Bidding
    quoting: Quoting
    nodes: AuctionNodes
    explainer: AuctionExplainer

    renting = None
    sites = None

    @property
    def name(self) -> str:
        """Unique in the service."""
        return self.desk.name

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        return AUCTION

    @property
    def base(self) -> str:
        """Name of the base model that it trains."""
        return self.supply.base

    @property
    def pool(self) -> None:
        """Its nodes are sold by the cell."""
        return None

    @property
    def num_slots(self) -> int:
        """How many slots from now on it looks ahead."""
        return self.supply.cluster.slots

    @property
    def num_nodes(self) -> int:
        """How many nodes it has."""
        return len(self.supply.cluster.nodes)

    async def ask(self, run: Callable[[AuctionZone], T]) -> T:
        """What `run` comes to on the desk's thread, once it is on record."""
        return await self.desk.ask_here(run)

    async def look_at(self, file: FileRecord) -> None:
        """Size a new upload, so that bids for it need not wait."""
        await self.files.look_at(file, self.defaults.length)

    def takes(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        foreign = foreign_term(request, *_FOREIGN)
        if foreign is not None:
            return f"knows nothing of {foreign}"
        if request.market.repair and not self.files.has_vendors:
            return "has no vendor that could mend data"
        return None

    async def quote(self, who: Principal, request: JobRequest) -> Priced:
        """What a job would cost, by the time at which it is finished."""
        self._check(request)
        return await self.quoting.quote(who, request)

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobRow:
        """The job as it would be decided; nothing happens."""
        self._check(request)
        return await self.quoting.preview(who, request, alternatives)

    async def submit(
        self,
        job: str,
        who: Principal,
        request: JobRequest,
        reply: Reply | None,
        alternatives: Alternatives,
    ) -> JobRow:
        """A job, as it stands once this is on record."""
        self._check(request)
        return await self.bidding.submit(job, who, request, reply, alternatives)

    async def accept(
        self, job: str, who: Principal, accepted: Acceptance, quote: Quote, reply: Reply | None
    ) -> JobRow:
        """The job of a line that was shown, at no more than was shown."""
        return await self.quoting.accept(job, who, accepted, quote, reply)

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self.bidding.close()

    def _check(self, request: JobRequest) -> None:
        check_own_terms(request, self.name, AUCTION, *_FOREIGN)
