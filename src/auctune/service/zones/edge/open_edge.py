"""An edge zone that is open: what requests speak to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auctune.domain import InputError
from auctune.service.access.key import Principal
from auctune.service.files.record import FileRecord
from auctune.service.jobs.reply import Reply
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.terms import check_own_terms, foreign_term
from auctune.service.quotes import Quote
from auctune.service.settings.zone_entry import EDGE
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.desk import Desk
from auctune.service.zones.edge.bidding import EdgeBidding
from auctune.service.zones.edge.explaining import EdgeExplainer
from auctune.service.zones.edge.sites import site_table
from auctune.service.zones.edge.supply import EdgeSupply
from auctune.service.zones.edge.zone import EdgeZone
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.offer import Alternatives, Priced

_FOREIGN = ("target_loss", "share")
# Of `market.lora`, what a model of the edge trains by too.
_LORA = {"learning_rate", "weight_decay"}


@dataclass(frozen=True, slots=True)
class OpenEdge:
    """One zone.

    Attributes:
        desk: decides.
        supply: what it offers.
        bidding: shows prices, and takes bids.
        explainer: of its decisions.
    """

    desk: Desk[EdgeZone]
    supply: EdgeSupply
    bidding: EdgeBidding
    explainer: EdgeExplainer

    @property
    def name(self) -> str:
        """Unique in the service."""
        return self.desk.name

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        return EDGE

    @property
    def base(self) -> str:
        """Name of the model that it trains."""
        return self.supply.model

    @property
    def clock(self) -> SlotClock:
        """Its slots."""
        return self.supply.clock

    @property
    def num_slots(self) -> int:
        """How many slots from now on it looks ahead."""
        return self.supply.market.slots

    @property
    def num_nodes(self) -> int:
        """How many sites it has."""
        return len(self.supply.market.sites)

    @property
    def nodes(self) -> None:
        """Its sites are no nodes that could be drained."""
        return None

    @property
    def renting(self) -> None:
        """It rents nothing."""
        return None

    @property
    def pool(self) -> None:
        """Its jobs share no pool."""
        return None

    @property
    def sites(self) -> "OpenEdge":
        """Its sites, as an operator sees them."""
        return self

    async def look_at(self, file: FileRecord) -> None:
        """Look at a new upload, so that bids for it need not wait."""
        await self.bidding.look_at(file)

    def takes(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        if request.market.sites is None:
            return "needs market.sites"
        missing = set(request.market.sites) - set(self.supply.market.site_ids)
        if missing:
            return f"has no site {', '.join(sorted(missing))}"
        found = _unknown(request)
        return None if found is None else f"knows nothing of {found}"

    async def quote(self, who: Principal, request: JobRequest) -> Priced:
        """What a job would cost, by the time at which it is finished."""
        self._check(request)
        return await self.bidding.quote(who, request)

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobRow:
        """The job as it would be decided; nothing happens."""
        self._check(request)
        return await self.bidding.preview(who, request, alternatives)

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
        return await self.bidding.accept(job, who, accepted, quote, reply)

    async def table(self) -> Mapping[str, Any]:
        """Sites, prices and use by slot: `SiteTable` of the API."""
        return await self.desk.ask_here(site_table)

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self.bidding.close()

    def _check(self, request: JobRequest) -> None:
        check_own_terms(request, self.name, EDGE, *_FOREIGN)
        found = _unknown(request)
        if found is not None:
            expected = f"none: zone {self.name} is of kind {EDGE}, which knows nothing of it"
            raise InputError(found, "is given", expected)
        if request.market.sites is None:
            expected = f"the files of sites: zone {self.name} trains where data are"
            raise InputError("market.sites", "is missing", expected)


def _unknown(request: JobRequest) -> str | None:
    """The first thing that a request says and that has no meaning here, as errors name it."""
    found = foreign_term(request, *_FOREIGN)
    if found is not None:
        return found
    if request.market.repair:
        return "market.repair"
    lora = sorted(request.market.lora.model_fields_set - _LORA)
    return f"market.lora.{lora[0]}" if lora else None
