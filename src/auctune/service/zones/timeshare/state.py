"""What a timeshare zone has come to: a fold over its events.

The live path and a restart apply events by the same function. In memory are open jobs, the shares
of the newest units, and the curves of some jobs that are over.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from auctune.domain import Money
from auctune.service.jobs.size import DataSize
from auctune.service.jobs.training import Training
from auctune.service.zones.change import Change
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.fold import apply
from auctune.service.zones.job_row import Status
from auctune.service.zones.metered.event import MeteredKind
from auctune.service.zones.metered.meter import Meter
from auctune.service.zones.received import Received, receive
from auctune.service.zones.timeshare import past_job
from auctune.service.zones.timeshare.event import TimeshareKind
from auctune.service.zones.timeshare.job_rows import closed_row, nothing_own, open_row
from auctune.service.zones.timeshare.open_job import Left, Phase, TargetJob
from auctune.service.zones.timeshare.past_job import Features, PastJob

NUM_UNITS = 240
"""Units whose shares operators see."""


@dataclass
class TimeshareState:
    """Open jobs of a zone, and what its pool did.

    Attributes:
        seq: of the newest event applied.
        heard: number of the newest event of the pool's journal that was taken over.
        received: jobs that wait for a decision, by id.
        jobs: admitted jobs that are not over, by id.
        units: {unit, span, shares} of the newest ones, oldest first.
        past: jobs that are over, the newest last.
    """

    seq: int = 0
    heard: int = 0
    received: dict[str, Received] = field(default_factory=dict)
    jobs: dict[str, TargetJob] = field(default_factory=dict)
    units: list[dict[str, Any]] = field(default_factory=list)
    past: list[PastJob] = field(default_factory=list)

    def apply(self, event: ZoneEvent) -> Change:
        """Take over what happened."""
        self.heard = max(self.heard, event.body.get("number", 0))
        return apply(_HANDLERS, self, event)

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "seq": self.seq,
            "heard": self.heard,
            "received": [one.to_record() for one in self.received.values()],
            "jobs": [job.to_record() for job in self.jobs.values()],
            "units": list(self.units),
            "past": [one.to_record() for one in self.past],
        }

    def load(self, record: dict[str, Any]) -> None:
        """Take over what `to_record` gave, into a state of nothing."""
        self.seq, self.heard = record["seq"], record["heard"]
        self.received = {one["id"]: Received.from_record(one) for one in record["received"]}
        self.jobs = {one["id"]: TargetJob.from_record(one) for one in record["jobs"]}
        self.units = record["units"]
        self.past = [PastJob.from_record(one) for one in record["past"]]

    def _received(self, event: ZoneEvent) -> Change:
        return receive(self.received, event, nothing_own())

    def _decided(self, event: ZoneEvent) -> Change:
        body, name = event.body, _id(event)
        waiting = self.received.pop(name, None)
        seq = event.seq if waiting is None else waiting.seq
        created_at = event.at if waiting is None else waiting.created_at
        decision = body["decision"]
        if not decision["admitted"]:
            return Change((closed_row(event, seq, created_at, Status.FAILED),))
        job = TargetJob(
            id=name,
            seq=seq,
            owner=body["owner"],
            created_at=created_at,
            request=body["request"],
            training=Training.from_record(body["training"]),
            size=DataSize(**body["size"]),
            decision=decision,
            target_loss=decision["target_loss"],
            deadline_unit=body["deadline_unit"],
            meter=Meter(body["owner"], Money(decision["max_cost"])),
        )
        self.jobs[name] = job
        return Change((open_row(job, event),), job.meter.begin())

    def _joined(self, event: ZoneEvent) -> Change:
        job = self.jobs.get(_id(event))
        if job is None:
            return Change()
        job.has_joined = True
        if job.phase is Phase.ADMITTED:
            job.phase = Phase.LEARNING
        return Change((open_row(job, event),))

    def _unit(self, event: ZoneEvent) -> Change:
        shares = event.body["shares"]
        self.units.append({name: event.body[name] for name in ("unit", "span", "shares")})
        del self.units[:-NUM_UNITS]
        changed = []
        for name, share in shares.items():
            job = self.jobs.get(name)
            if job is not None and job.share != share:
                job.share = share
                changed.append(open_row(job, event))
        return Change(tuple(changed))

    def _metered(self, event: ZoneEvent) -> Change:
        """What a unit was worth; its row comes with what it trained."""
        job, body = self.jobs[_id(event)], event.body
        job.finish, job.verdict = body["finish"], body["verdict"]
        if body["loss"] is not None:
            job.curve.add(body["batches"], body["loss"], body["seconds"])
            job.best = body["loss"] if job.best is None else min(job.best, body["loss"])
        return Change((), job.meter.charge(body["slot"], Money(body["amount"])))

    def _trained(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.progress = job.progress.after(event.body["result"])
        return Change((open_row(job, event),))

    def _left(self, event: ZoneEvent) -> Change:
        job, body = self.jobs.get(_id(event)), event.body
        if job is None:
            return Change()
        job.left = Left(body["how"], body["why"], body["best"])
        job.phase, job.share = Phase.LEFT, 0.0
        return Change((open_row(job, event),))

    def _paused(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.phase = Phase.PAUSED
        return Change((open_row(job, event),))

    def _resumed(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.phase = Phase.LEARNING if job.has_joined else Phase.ADMITTED
        return Change((open_row(job, event),))

    def _noted(self, event: ZoneEvent) -> Change:
        job = self.jobs.get(_id(event))
        if job is None:
            return Change()
        job.notes.append(event.body["text"])
        return Change((open_row(job, event),))

    def _cancelled(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.CANCELLED)

    def _finished(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.SUCCEEDED)

    def _failed(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.FAILED)

    def _close(self, event: ZoneEvent, status: Status) -> Change:
        waiting = self.received.pop(_id(event), None)
        if waiting is not None:
            return Change((closed_row(event, waiting.seq, waiting.created_at, status, waiting),))
        job = self.jobs.pop(_id(event))
        if len(job.curve.points) >= past_job.LEAST_POINTS:
            self.past.append(PastJob(job.id, Features.of(job.training, job.size), job.curve))
            del self.past[: -past_job.MOST]
        entries = job.meter.end(refunded=event.body.get("refund", False))
        return Change((closed_row(event, job.seq, job.created_at, status, job),), entries)


def _id(event: ZoneEvent) -> str:
    assert event.job is not None
    return event.job


_HANDLERS: dict[str, Callable[[TimeshareState, ZoneEvent], Change]] = {
    Kind.RECEIVED: TimeshareState._received,
    Kind.DECIDED: TimeshareState._decided,
    TimeshareKind.JOINED: TimeshareState._joined,
    TimeshareKind.UNIT: TimeshareState._unit,
    MeteredKind.METERED: TimeshareState._metered,
    Kind.TRAINED: TimeshareState._trained,
    TimeshareKind.LEFT: TimeshareState._left,
    Kind.PAUSED: TimeshareState._paused,
    Kind.RESUMED: TimeshareState._resumed,
    Kind.JOB_NOTED: TimeshareState._noted,
    Kind.CANCELLED: TimeshareState._cancelled,
    Kind.FINISHED: TimeshareState._finished,
    Kind.FAILED: TimeshareState._failed,
}
