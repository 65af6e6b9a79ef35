"""A timeshare zone that is open: what requests speak to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auctune.domain import InputError, Money
from auctune.service.config.zone import TIMESHARE
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import has_deadline, reject_unsupported
from auctune.service.zones.bidding_zone import BiddingZone
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.timeshare.taking import Taking
from auctune.service.zones.timeshare.zone import TimeshareZone

# Terms of other kinds of zones.
_FOREIGN = ("sites",)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTimeshare(BiddingZone[TimeshareZone, Taking]):
    """One zone.

    Attributes:
        base: name of the base model that it trains.
        price: of a second of the pool.
        clock: its slots.
        num_slots: how many slots from now on it looks ahead.
    """

    base: str
    price: Money
    clock: SlotClock
    num_slots: int

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        return TIMESHARE

    @property
    def num_nodes(self) -> int:
        """The pool."""
        return 1

    @property
    def pool(self) -> "OpenTimeshare":
        """What its jobs share."""
        return self

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        if request.market.target_loss is None:
            return "needs market.target_loss"
        if not has_deadline(request):
            return "needs market.deadline"
        found = _unknown(request)
        return None if found is None else f"trains to a loss, and does not support {found}"

    async def shares(self) -> Mapping[str, Any]:
        """Shares of the newest units, and who is in the pool: `PoolTable` of the API."""
        return await self.call(_shares)

    def _check(self, request: JobRequest) -> None:
        reject_unsupported(request, self.name, TIMESHARE, *_FOREIGN)
        found = _unknown(request)
        if found is not None:
            expected = (
                f"none: zone {self.name} ({TIMESHARE}) trains to a loss and does not support it"
            )
            raise InputError(found, "is given", expected)


def _unknown(request: JobRequest) -> str | None:
    """The first thing that a request says and that has no meaning here, as errors name it."""
    said = {
        "market.sites": request.market.sites is not None,
        "market.repair": request.market.repair,
        "validation_file": request.validation_file is not None,
        "market.lora.patience": request.market.lora.patience > 0,
        "hyperparameters.n_epochs": request.hyperparameters_used.n_epochs != "auto",
    }
    return next((name for name, is_said in said.items() if is_said), None)


def _shares(zone: TimeshareZone) -> dict[str, Any]:
    state, clock = zone.state, zone.clock
    return {
        "zone": zone.name,
        "slot_seconds": clock.slot_seconds,
        "jobs": [
            {
                "job": job.id,
                "user": job.owner,
                "state": job.phase.value,
                "target_loss": job.target_loss,
                "best_loss": job.best,
                "share": job.share,
                "finish": None
                if job.finish is None
                else clock.slot_start(0) + job.finish * (clock.slot_seconds),
                "deadline": clock.slot_start(job.deadline_unit),
                "verdict": job.verdict,
                "cost": str(job.cost),
            }
            for job in state.jobs.values()
        ],
        "units": [{**unit, "begins_at": clock.slot_start(unit["unit"])} for unit in state.units],
    }
