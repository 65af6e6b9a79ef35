"""A rented zone that is open: what requests speak to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auctune.domain import InputError
from auctune.service.access.key import Principal
from auctune.service.files.record import FileRecord
from auctune.service.jobs.reply import Reply
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.terms import check_own_terms, foreign_term, has_deadline
from auctune.service.quotes import Quote
from auctune.service.settings.zone_entry import SPOT
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.desk import Desk
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.offer import Alternatives, Priced
from auctune.service.zones.spot.bidding import SpotBidding
from auctune.service.zones.spot.rental import Rental
from auctune.service.zones.spot.zone import SpotZone

_FOREIGN = ("target_loss", "sites")


@dataclass(frozen=True, slots=True)
class OpenSpot:
    """One zone.

    Attributes:
        desk: decides.
        rental: what it offers.
        bidding: takes bids.
    """

    desk: Desk[SpotZone]
    rental: Rental
    bidding: SpotBidding

    nodes = None
    sites = None
    explainer = None

    @property
    def renting(self) -> "OpenSpot":
        """What an operator sees of what it rents."""
        return self

    @property
    def pool(self) -> None:
        """Its jobs share no pool."""
        return None

    @property
    def name(self) -> str:
        """Unique in the service."""
        return self.desk.name

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        return SPOT

    @property
    def base(self) -> str:
        """Name of the base model that it trains."""
        return self.rental.base

    @property
    def clock(self) -> SlotClock:
        """Its slots."""
        return self.rental.clock

    @property
    def num_slots(self) -> int:
        """How many slots from now on it looks ahead."""
        return self.rental.num_slots

    @property
    def num_nodes(self) -> int:
        """How many instances its jobs hold at most."""
        return self.rental.n_max * self.rental.jobs

    async def look_at(self, file: FileRecord) -> None:
        """Size a new upload, so that bids for it need not wait."""
        await self.bidding.look_at(file)

    def takes(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        foreign = foreign_term(request, *_FOREIGN)
        if foreign is not None:
            return f"knows nothing of {foreign}"
        if request.market.repair:
            return "has no vendor that could mend data"
        return None if has_deadline(request) else "needs market.deadline"

    async def quote(self, who: Principal, request: JobRequest) -> Priced:
        """What a job is likely to come to."""
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
        """The job of an estimate that was shown."""
        return await self.bidding.accept(job, who, accepted, quote, reply)

    async def rented(self) -> Mapping[str, Any]:
        """The market and what is held by slot: `RentedTable` of the API."""
        return await self.desk.ask_here(_rented)

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self.bidding.close()

    def _check(self, request: JobRequest) -> None:
        check_own_terms(request, self.name, SPOT, *_FOREIGN)
        if request.market.repair:
            raise InputError("market.repair", "is set", f"data that zone {self.name} need not mend")


def _rented(zone: SpotZone) -> dict[str, Any]:
    zone.begin_slots()
    seen = list(zone.state.slots.values())
    return {
        "zone": zone.name,
        "slot_seconds": zone.clock.slot_seconds,
        "unit_cost": zone.rental.unit_cost,
        "unit_price": zone.rental.unit_price,
        "slots": [{**vars(one), "begins_at": zone.clock.begins(one.slot)} for one in seen],
    }
