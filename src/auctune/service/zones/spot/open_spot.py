"""A rented zone that is open: what requests speak to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auctune.domain import InputError
from auctune.service.config.zone import SPOT
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import has_deadline, reject_unsupported, unsupported_field
from auctune.service.zones.bidding_zone import BiddingZone
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.spot.bidding import SpotBidding
from auctune.service.zones.spot.rental import Rental
from auctune.service.zones.spot.zone import SpotZone

_FOREIGN = ("target_loss", "sites")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSpot(BiddingZone[SpotZone, SpotBidding]):
    """One zone.

    Attributes:
        rental: what it offers.
    """

    rental: Rental

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
        return self.rental.n_max * self.rental.max_jobs

    @property
    def renting(self) -> "OpenSpot":
        """What an operator sees of what it rents."""
        return self

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        foreign = unsupported_field(request, *_FOREIGN)
        if foreign is not None:
            return f"does not support {foreign}"
        if request.market.repair:
            return "has no vendor that could repair data"
        return None if has_deadline(request) else "needs market.deadline"

    async def rented(self) -> Mapping[str, Any]:
        """The market and what is held by slot: `RentedTable` of the API."""
        return await self.call(_rented)

    def _check(self, request: JobRequest) -> None:
        reject_unsupported(request, self.name, SPOT, *_FOREIGN)
        if request.market.repair:
            raise InputError(
                "market.repair", "is set", f"data that zone {self.name} need not repair"
            )


def _rented(zone: SpotZone) -> dict[str, Any]:
    zone.begin_slots()
    seen = list(zone.state.slots.values())
    return {
        "zone": zone.name,
        "slot_seconds": zone.clock.slot_seconds,
        "unit_cost": zone.rental.unit_cost,
        "unit_price": zone.rental.unit_price,
        "slots": [{**vars(one), "begins_at": zone.clock.slot_start(one.slot)} for one in seen],
    }
