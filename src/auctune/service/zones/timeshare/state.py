"""State of a timeshare zone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from auctune.domain import Money
from auctune.service.storage.events import ZoneEvent, job_of
from auctune.service.storage.read_model import Effects, Status
from auctune.service.zones.core.events import EventData, JobCancelled, JobResumed, JobTrained
from auctune.service.zones.core.job import PendingJob, Phase
from auctune.service.zones.core.metered import Meter
from auctune.service.zones.core.state import Reducer, ZoneModel, ZoneState
from auctune.service.zones.timeshare.events import (
    JobJoined,
    JobLeft,
    JobSettled,
    PoolEnded,
    PoolNoted,
    TimeshareCancelled,
    TimeshareDecided,
    TimeshareFailed,
    TimeshareMetered,
    UnitTrained,
)
from auctune.service.zones.timeshare.job import (
    MAX_COMPLETED_JOBS,
    MIN_POINTS,
    CancelledJob,
    CompletedJob,
    Departure,
    Features,
    TimeshareJob,
)
from auctune.service.zones.timeshare.projection import TimeshareProjection

NUM_UNITS = 240
"""Units whose shares are kept for operators."""


@dataclass(kw_only=True)
class TimeshareState(ZoneState[TimeshareJob]):
    """State of a timeshare zone.

    Attributes:
        journal_offset: number of the newest event of the pool.
        units: {unit, span, shares} of the newest units, oldest first.
        past: completed jobs, the newest last.
        cancelled: cancelled jobs that the pool may not have dropped yet, by id.
    """

    projection: ClassVar[TimeshareProjection] = TimeshareProjection()

    jobs: dict[str, TimeshareJob] = field(default_factory=dict)
    journal_offset: int = 0
    units: list[dict[str, Any]] = field(default_factory=list)
    past: list[CompletedJob] = field(default_factory=list)
    cancelled: dict[str, CancelledJob] = field(default_factory=dict)

    def charged_job(self, name: str) -> TimeshareJob | None:
        """Return the job that pays for what the pool trains by this name, or None."""
        found = self.cancelled.get(name)
        return self.jobs.get(name) if found is None else found.job

    def evolve(self, event: ZoneEvent, data: EventData | None = None) -> Effects:
        data = data or self.decode(event)
        self.journal_offset = max(self.journal_offset, getattr(data, "number", None) or 0)
        return super().evolve(event, data)

    def admit(self, event: ZoneEvent, data: TimeshareDecided, pending: PendingJob) -> TimeshareJob:
        return TimeshareJob(
            **vars(pending),
            size=data.size,
            decision=data.decision,
            target_loss=data.decision["target_loss"],
            deadline_unit=data.deadline_unit,
            meter=Meter(pending.owner, Money(data.decision["max_cost"])),
        )

    def _end(self, event: ZoneEvent, status: Status, *, refunded: bool) -> Effects:
        job = self.jobs.get(job_of(event))
        if job is not None:
            self._keep_curve(job)
        return super()._end(event, status, refunded=refunded)

    def _keep_curve(self, job: TimeshareJob) -> None:
        """Keep the curve of a job that ends, to forecast others."""
        if len(job.curve.points) >= MIN_POINTS:
            features = Features.of(job.training, job.size)
            self.past.append(CompletedJob(job.id, job.owner, features, job.curve))
            del self.past[:-MAX_COMPLETED_JOBS]

    def _joined(self, event: ZoneEvent, _data: JobJoined) -> Effects:
        job = self.jobs.get(job_of(event))
        if job is None:
            return Effects()
        job.has_joined = True
        if job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        return self.show(event, job)

    def _unit(self, event: ZoneEvent, data: UnitTrained) -> Effects:
        self.units.append({"unit": data.unit, "span": data.span, "shares": data.shares})
        del self.units[:-NUM_UNITS]
        changed = []
        for name, share in data.shares.items():
            job = self.jobs.get(name)
            if job is not None and job.share != share:
                job.share = share
                changed.append(self.projection.open(event, job))
        return Effects(tuple(changed))

    def _metered(self, event: ZoneEvent, data: TimeshareMetered) -> Effects:
        # The row of a unit that trained something comes with the event of its training.
        job = self.charged_job(job_of(event))
        assert job is not None
        job.finish, job.verdict = data.finish, data.verdict
        if data.loss is not None:
            job.curve.add(data.batches, data.loss, data.seconds)
            job.best = data.loss if job.best is None else min(job.best, data.loss)
        charged = job.meter.charge(data.slot, data.amount)
        cancelled = self.cancelled.get(job.id)
        if cancelled is not None:
            return Effects((self.projection.cancelled(event, cancelled),), charged)
        return Effects(() if data.batches else (self.projection.open(event, job),), charged)

    def _cancelled(self, event: ZoneEvent, data: JobCancelled) -> Effects:
        # A job that the pool may be training is charged until the pool has dropped it.
        if not isinstance(data, TimeshareCancelled) or data.held is None:
            return super()._cancelled(event, data)
        job = self.jobs.pop(job_of(event))
        cancelled = CancelledJob(job, event.seq, event.at)
        self.cancelled[job.id] = cancelled
        entries = job.meter.lower(data.held)
        return Effects((self.projection.cancelled(event, cancelled),), entries)

    def _settled(self, event: ZoneEvent, _data: JobSettled) -> Effects:
        cancelled = self.cancelled.pop(job_of(event))
        self._keep_curve(cancelled.job)
        entries = cancelled.job.settlement_entries(refunded=False)
        return Effects((self.projection.cancelled(event, cancelled),), entries)

    def _trained(self, event: ZoneEvent, data: JobTrained) -> Effects:
        job = self.jobs[job_of(event)]
        job.progress = job.progress.after(data.result)
        return self.show(event, job)

    def _left(self, event: ZoneEvent, data: JobLeft) -> Effects:
        job = self.jobs.get(job_of(event))
        if job is None:
            return Effects()
        job.departure = Departure(data.how, data.why, data.best)
        job.phase, job.share = Phase.TRAINED, 0.0
        return self.show(event, job)

    def _resumed(self, event: ZoneEvent, _data: JobResumed) -> Effects:
        job = self.jobs[job_of(event)]
        job.continue_phase(has_trained=job.has_joined)
        return self.show(event, job)

    reducers: ClassVar[Mapping[type[EventData], Reducer]] = {
        **ZoneState.reducers,
        TimeshareDecided: ZoneState._decided,
        JobJoined: _joined,
        UnitTrained: _unit,
        TimeshareMetered: _metered,
        JobTrained: _trained,
        JobLeft: _left,
        PoolNoted: ZoneState._noted,
        PoolEnded: ZoneState._unchanged,
        JobSettled: _settled,
        TimeshareCancelled: _cancelled,
        TimeshareFailed: ZoneState._failed,
        JobResumed: _resumed,
    }


TimeshareModel = ZoneModel[TimeshareState, None]


def empty_model(_opened: Mapping[str, Any]) -> TimeshareModel:
    """Return the model of a zone without jobs."""
    return ZoneModel(TimeshareState(), None)
