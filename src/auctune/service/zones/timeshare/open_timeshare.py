"""A timeshare zone that is open: what requests speak to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auctune.domain import InputError, Money
from auctune.service.access.key import Principal
from auctune.service.files.record import FileRecord
from auctune.service.jobs.asked import Defaults
from auctune.service.jobs.job_files import JobFiles
from auctune.service.jobs.reply import Reply
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.terms import check_own_terms, has_deadline
from auctune.service.quotes import Quote
from auctune.service.settings.zone_entry import TIMESHARE
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.desk import Desk
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.offer import Alternatives, Priced
from auctune.service.zones.timeshare.taking import Taking
from auctune.service.zones.timeshare.zone import TimeshareZone

# Terms of other kinds of zones.
_FOREIGN = ("sites",)


@dataclass(frozen=True, slots=True)
class OpenTimeshare:
    """One zone.

    Attributes:
        desk: decides.
        base: name of the base model that it trains.
        price: of a second of the pool.
        clock: its slots.
        num_slots: how many slots from now on it looks ahead.
        defaults: what it chooses where requests do not.
        files: of its jobs.
        taking: takes jobs.
    """

    desk: Desk[TimeshareZone]
    base: str
    price: Money
    clock: SlotClock
    num_slots: int
    defaults: Defaults
    files: JobFiles
    taking: Taking

    @property
    def name(self) -> str:
        """Unique in the service."""
        return self.desk.name

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        return TIMESHARE

    @property
    def num_nodes(self) -> int:
        """The pool."""
        return 1

    @property
    def nodes(self) -> None:
        """A pool has no nodes that could be drained."""
        return None

    @property
    def renting(self) -> None:
        """It rents nothing."""
        return None

    @property
    def sites(self) -> None:
        """It trains here."""
        return None

    @property
    def pool(self) -> "OpenTimeshare":
        """What its jobs share."""
        return self

    @property
    def explainer(self) -> None:
        """What is no promise is not explained: the estimate is on record with the decision."""
        return None

    async def look_at(self, file: FileRecord) -> None:
        """Size a new upload, so that requests for it need not wait."""
        await self.files.look_at(file, self.defaults.length)

    def takes(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        if request.market.target_loss is None:
            return "needs market.target_loss"
        if not has_deadline(request):
            return "needs market.deadline"
        found = _unknown(request)
        return None if found is None else f"trains to a loss, and knows nothing of {found}"

    async def quote(self, who: Principal, request: JobRequest) -> Priced:
        """What a job is likely to come to."""
        self._check(request)
        return await self.taking.quote(who, request)

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobRow:
        """The job as it would be decided; nothing happens."""
        self._check(request)
        return await self.taking.preview(who, request, alternatives)

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
        return await self.taking.submit(job, who, request, reply, alternatives)

    async def accept(
        self, job: str, who: Principal, accepted: Acceptance, quote: Quote, reply: Reply | None
    ) -> JobRow:
        """The job of an estimate that was shown."""
        return await self.taking.accept(job, who, accepted, quote, reply)

    async def shares(self) -> Mapping[str, Any]:
        """Shares of the newest units, and who is in the pool: `PoolTable` of the API."""
        return await self.desk.ask_here(_shares)

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self.taking.close()

    def _check(self, request: JobRequest) -> None:
        check_own_terms(request, self.name, TIMESHARE, *_FOREIGN)
        found = _unknown(request)
        if found is not None:
            expected = f"none: zone {self.name} is of kind {TIMESHARE}, and trains to a loss"
            raise InputError(found, "is given", expected)


def _unknown(request: JobRequest) -> str | None:
    """The first thing that a request says and that has no meaning here, as errors name it."""
    said = {
        "market.sites": request.market.sites is not None,
        "market.repair": request.market.repair,
        "validation_file": request.validation_file is not None,
        "market.lora.patience": request.market.lora.patience > 0,
        "hyperparameters.n_epochs": request.chosen.n_epochs != "auto",
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
                else clock.begins(0) + job.finish * (clock.slot_seconds),
                "deadline": clock.begins(job.deadline_unit),
                "verdict": job.verdict,
                "cost": str(job.cost),
            }
            for job in state.jobs.values()
        ],
        "units": [{**unit, "begins_at": clock.begins(unit["unit"])} for unit in state.units],
    }
