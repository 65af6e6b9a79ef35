"""State of a timeshare zone: a fold over its events, and its snapshot.

The live path and a restart apply events by the same function. In memory are open jobs, the shares
of the newest units, and the curves of some jobs that are over.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from auctune.domain import Money, read_snapshot
from auctune.domain.data_size import DataSize
from auctune.service.ledger import Entry
from auctune.service.zones.core.events import EventType, ZoneEvent, job_of
from auctune.service.zones.core.job import PendingJob
from auctune.service.zones.core.metered import Meter, MeteredEventType
from auctune.service.zones.core.read_model import Effects
from auctune.service.zones.core.state import JOB_REDUCERS, ZoneState, reduce
from auctune.service.zones.timeshare.job import (
    MAX_COMPLETED_JOBS,
    MIN_POINTS,
    CancelledJob,
    CompletedJob,
    Departure,
    Features,
    Phase,
    TimeshareEventType,
    TimeshareJob,
)
from auctune.service.zones.timeshare.projection import PROJECTION, TimeshareProjection

NUM_UNITS = 240
"""Units whose shares operators see."""


@dataclass
class TimeshareState(ZoneState[TimeshareJob]):
    """Open jobs of a zone, and what its pool did.

    Attributes:
        heard: number of the newest event of the pool's journal that was taken over.
        units: {unit, span, shares} of the newest ones, oldest first.
        past: jobs that are over, the newest last.
        cancelled: jobs that were cancelled, and that the pool may not have dropped yet, by id.
    """

    journal_offset: int = 0
    units: list[dict[str, Any]] = field(default_factory=list)
    past: list[CompletedJob] = field(default_factory=list)
    cancelled: dict[str, CancelledJob] = field(default_factory=dict)

    def charged_job(self, name: str) -> TimeshareJob | None:
        """Return the job that pays for what the pool trains by this name, or None."""
        found = self.cancelled.get(name)
        return self.jobs.get(name) if found is None else found.job

    def apply(self, event: ZoneEvent) -> Effects:
        """Take over what happened."""
        self.journal_offset = max(self.journal_offset, event.body.get("number", 0))
        return reduce(_HANDLERS, self, event)

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "seq": self.seq,
            "heard": self.journal_offset,
            "received": [one.to_record() for one in self.received.values()],
            "jobs": [job.to_record() for job in self.jobs.values()],
            "units": list(self.units),
            "past": [one.to_record() for one in self.past],
            "cancelled": [one.to_record() for one in self.cancelled.values()],
        }

    def load(self, record: dict[str, Any]) -> None:
        """Take over what `to_record` gave, into a state of nothing."""
        self.seq, self.journal_offset = record["seq"], record["heard"]
        self.received = {one["id"]: PendingJob.from_record(one) for one in record["received"]}
        self.jobs = {one["id"]: TimeshareJob.from_record(one) for one in record["jobs"]}
        self.units = record["units"]
        self.past = [CompletedJob.from_record(one) for one in record["past"]]
        cancelled = map(CancelledJob.from_record, record["cancelled"])
        self.cancelled = {one.job.id: one for one in cancelled}

    @property
    def rows(self) -> TimeshareProjection:
        """Makes rows of its jobs."""
        return PROJECTION

    def admit(self, event: ZoneEvent, asked: PendingJob) -> TimeshareJob:
        """A job that an event admits."""
        body, decision = event.body, event.body["decision"]
        return TimeshareJob(
            **vars(asked),
            size=DataSize.from_record(body["size"]),
            decision=decision,
            target_loss=decision["target_loss"],
            deadline_unit=body["deadline_unit"],
            meter=Meter(asked.owner, Money(decision["max_cost"])),
        )

    def admission_entries(self, job: TimeshareJob) -> tuple[Entry, ...]:
        """Its cap is set aside."""
        return job.meter.begin()

    def settlement_entries(self, job: TimeshareJob, *, refunded: bool) -> tuple[Entry, ...]:
        """What was not used is released, and what was may be refunded; its curve is kept."""
        if len(job.curve.points) >= MIN_POINTS:
            self.past.append(
                CompletedJob(job.id, job.owner, Features.of(job.training, job.size), job.curve)
            )
            del self.past[:-MAX_COMPLETED_JOBS]
        return job.meter.end(refunded=refunded)

    def _joined(self, event: ZoneEvent) -> Effects:
        job = self.jobs.get(job_of(event))
        if job is None:
            return Effects()
        job.has_joined = True
        if job.phase is Phase.ADMITTED:
            job.phase = Phase.LEARNING
        return Effects((self.rows.open(event, job),))

    def _unit(self, event: ZoneEvent) -> Effects:
        shares = event.body["shares"]
        self.units.append({name: event.body[name] for name in ("unit", "span", "shares")})
        del self.units[:-NUM_UNITS]
        changed = []
        for name, share in shares.items():
            job = self.jobs.get(name)
            if job is not None and job.share != share:
                job.share = share
                changed.append(self.rows.open(event, job))
        return Effects(tuple(changed))

    def _metered(self, event: ZoneEvent) -> Effects:
        """What a unit cost; its row comes with what it trained, if that is anything."""
        job, body = self.charged_job(job_of(event)), event.body
        assert job is not None
        job.finish, job.verdict = body["finish"], body["verdict"]
        if body["loss"] is not None:
            job.curve.add(body["batches"], body["loss"], body["seconds"])
            job.best = body["loss"] if job.best is None else min(job.best, body["loss"])
        charged = job.meter.charge(body["slot"], Money(body["amount"]))
        cancelled = self.cancelled.get(job.id)
        if cancelled is not None:
            return Effects((self.rows.cancelled(event, cancelled),), charged)
        return Effects(() if body["batches"] else (self.rows.open(event, job),), charged)

    def _cancelled(self, event: ZoneEvent) -> Effects:
        """A job that the pool may be training is charged until the pool has dropped it."""
        held = event.body.get("held")
        if held is None:
            return super()._cancelled(event)
        job = self.jobs.pop(job_of(event))
        cancelled = CancelledJob(job, event.seq, event.at)
        self.cancelled[job.id] = cancelled
        entries = job.meter.lower(Money(held))
        return Effects((self.rows.cancelled(event, cancelled),), entries)

    def _settled(self, event: ZoneEvent) -> Effects:
        cancelled = self.cancelled.pop(job_of(event))
        entries = self.settlement_entries(cancelled.job, refunded=False)
        return Effects((self.rows.cancelled(event, cancelled),), entries)

    def _trained(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.progress = job.progress.after(event.body["result"])
        return Effects((self.rows.open(event, job),))

    def _left(self, event: ZoneEvent) -> Effects:
        job, body = self.jobs.get(job_of(event)), event.body
        if job is None:
            return Effects()
        job.left = Departure(body["how"], body["why"], body["best"])
        job.phase, job.share = Phase.LEFT, 0.0
        return Effects((self.rows.open(event, job),))

    def _paused(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.phase = Phase.PAUSED
        return Effects((self.rows.open(event, job),))

    def _resumed(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.phase = Phase.LEARNING if job.has_joined else Phase.ADMITTED
        return Effects((self.rows.open(event, job),))


_HANDLERS: dict[str, Callable[[TimeshareState, ZoneEvent], Effects]] = {
    **JOB_REDUCERS,
    TimeshareEventType.JOINED: TimeshareState._joined,
    TimeshareEventType.UNIT: TimeshareState._unit,
    MeteredEventType.METERED: TimeshareState._metered,
    EventType.TRAINED: TimeshareState._trained,
    TimeshareEventType.LEFT: TimeshareState._left,
    TimeshareEventType.SETTLED: TimeshareState._settled,
    EventType.CANCELLED: TimeshareState._cancelled,
    EventType.PAUSED: TimeshareState._paused,
    EventType.RESUMED: TimeshareState._resumed,
}


# The model and its snapshot.


class TimeshareModel:
    """Of one zone.

    Attributes:
        state: what its events have come to.
    """

    def __init__(self) -> None:
        self.state = TimeshareState()

    @property
    def seq(self) -> int:
        """Of the newest event applied; 0 before the first."""
        return self.state.seq

    def load(self, body: bytes) -> None:
        """Take over a snapshot, into a memory that is empty."""
        saved = read_snapshot(body)
        self.state.load(orjson.loads(saved["state"].tobytes()))

    def apply(self, event: ZoneEvent) -> Effects:
        """Take over one event."""
        return self.state.apply(event)


def saved_state(state: TimeshareState) -> dict[str, Any]:
    """A state in words; nothing of it changes when the zone goes on."""
    # As bytes: names that users chose stand for nothing in it.
    return {"state": np.frombuffer(orjson.dumps(state.to_record()), dtype=np.uint8)}
