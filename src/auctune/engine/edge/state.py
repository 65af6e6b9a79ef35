"""State of a run, from its event log; and its report.

A loss of a site and what follows from it are one event, so that there is never one without the
other.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from auctune.atomic_files import write_atomically
from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.edge.decision import (
    EdgeCommitment,
    EdgeDecision,
    EdgeOffered,
    EdgePlan,
    EdgeReplanned,
    SiteLost,
    SlotPlan,
)
from auctune.edge.eris import Eris
from auctune.edge.job import EdgeJob
from auctune.edge.market import EdgeMarket
from auctune.engine.edge.edge_folder import SlotOutcome
from auctune.engine.edge.records import DecisionField, PlanField
from auctune.engine.event_log import EventRecord
from auctune.sim.edge.instance_file import EdgeInstance

_MB = 1e6


@dataclass(frozen=True, slots=True)
class RunBegun:
    """The run exists."""

    type: Literal["begun"] = "begun"


@dataclass(frozen=True, slots=True)
class BidDecided:
    """A bid was decided on."""

    slot: int
    job: str
    decision: DecisionField
    type: Literal["offered"] = "offered"


@dataclass(frozen=True, slots=True)
class JobSlotTrained:
    """A job's slot was trained, and its checkpoint written."""

    slot: int
    job: str
    outcome: SlotOutcome
    type: Literal["trained"] = "trained"


@dataclass(frozen=True, slots=True)
class JobReplanned:
    """New plan of a job of a lost site.

    Attributes:
        job: its id.
        lost_slot: whether it lost the slot before the replanned ones.
        found: the plan of the rest, or None: it is refunded.
    """

    job: str
    lost_slot: bool
    found: PlanField | None


@dataclass(frozen=True, slots=True)
class SiteClosed:
    """A site runs nothing from slot `now` on, as it was lost; its jobs have new plans."""

    site: str
    now: int
    replanned: list[JobReplanned]
    type: Literal["site_lost"] = "site_lost"


@dataclass(frozen=True, slots=True)
class JobRefunded:
    """A job needs rows that were lost with a site: it trains no more from `slot` on."""

    slot: int
    job: str
    type: Literal["refunded"] = "refunded"


@dataclass(frozen=True, slots=True)
class SlotEnded:
    """A slot is over."""

    slot: int
    type: Literal["slot_done"] = "slot_done"


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over."""

    type: Literal["ended"] = "ended"


LoggedEvent = (
    RunBegun | BidDecided | JobSlotTrained | SiteClosed | JobRefunded | SlotEnded | RunEnded
)
_EVENT: TypeAdapter[LoggedEvent] = TypeAdapter(Annotated[LoggedEvent, Field(discriminator="type")])


def event_record(event: LoggedEvent) -> EventRecord:
    """Return an event for the log."""
    record: EventRecord = _EVENT.dump_python(event)
    return record


@dataclass
class JobRecord:
    """One job of a run.

    Attributes:
        job: the bid.
        decision: on it.
        plan: slots that were trained, and those to come; None if it was rejected.
        trained: outcomes by slot.
        num_lost_slots: number of slots that were lost.
        refunded: whether it was given up.
    """

    job: EdgeJob
    decision: EdgeDecision
    plan: EdgePlan | None
    trained: dict[int, SlotOutcome] = field(default_factory=dict)
    num_lost_slots: int = 0
    refunded: bool = False

    @property
    def is_done(self) -> bool:
        """Whether all chunks of all epochs are trained."""
        return (
            self.plan is not None
            and not self.refunded
            and not self.diverged
            and all(part.slot in self.trained for part in self.plan.slots)
        )

    @property
    def diverged(self) -> bool:
        """Whether the training diverged: the job ends without a refund."""
        return any(outcome.diverged for outcome in self.trained.values())

    @property
    def is_running(self) -> bool:
        """Whether the job is admitted and has not ended."""
        ended = self.refunded or self.diverged or self.is_done
        return self.plan is not None and not ended

    def part(self, slot: int) -> SlotPlan | None:
        """Return what is to be trained in a slot, or None."""
        if not self.is_running or self.plan is None or slot in self.trained:
            return None
        return self.plan.at(slot)


@dataclass
class EdgeRunState:
    """All that a resumed run needs, beside checkpoints.

    Attributes:
        instance: market and jobs.
        eris: the mechanism, with all that it has sold.
        jobs: that were decided on, in that order.
        lost: lost sites, by the slot since when.
        slot: the running slot, or the next one.
        ended: whether the run is over.
    """

    instance: EdgeInstance
    eris: Eris
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    slot: int = 0
    ended: bool = False

    def replay(self, events: Iterable[EventRecord]) -> None:
        """Apply recorded events, to the mechanism too."""
        for record in events:
            event = _EVENT.validate_python(record)
            self.eris_applies(event)
            self.apply(event)

    def commitments(self) -> list[EdgeCommitment]:
        """Return the running jobs and their plans for the mechanism."""
        return [
            EdgeCommitment(record.job, record.plan)
            for record in self.jobs.values()
            if record.is_running and record.plan is not None
        ]

    def apply(self, event: LoggedEvent) -> None:
        """Apply one event; the mechanism has it already."""
        match event:
            case BidDecided():
                decision = event.decision
                self.jobs[event.job] = JobRecord(self._bid(event.job), decision, decision.plan)
            case JobSlotTrained():
                self.jobs[event.job].trained[event.slot] = event.outcome
            case SiteClosed():
                self.lost[event.site] = event.now
                for one in event.replanned:
                    self._replan(one, event.now)
            case JobRefunded():
                self.jobs[event.job].refunded = True
            case SlotEnded():
                self.slot = event.slot + 1
            case RunEnded():
                self.ended = True

    def eris_applies(self, event: LoggedEvent) -> None:
        """Apply one event to the mechanism."""
        match event:
            case BidDecided():
                self.eris.apply(EdgeOffered(self._bid(event.job), event.decision, event.slot))
            case SiteClosed():
                self.eris.apply(SiteLost(event.site, event.now))
                # All released their plans first: sums of floats depend on their order.
                for one in event.replanned:
                    self._release(one.job, event.now)
                for one in event.replanned:
                    job = self.jobs[one.job].job
                    self.eris.apply(EdgeReplanned(job, event.now, EdgePlan(()), one.found))
            case JobRefunded():
                self._release(event.job, event.slot)
            case JobSlotTrained() if event.outcome.diverged:
                self._release(event.job, event.slot + 1)

    def _bid(self, job: str) -> EdgeJob:
        return next(one for one in self.instance.jobs if one.id == job)

    def _release(self, job: str, now: int) -> None:
        """Give the mechanism back what a job was to use from slot `now` on."""
        record = self.jobs[job]
        assert record.plan is not None
        self.eris.apply(EdgeReplanned(record.job, now, record.plan.since(now), None))

    def _replan(self, one: JobReplanned, now: int) -> None:
        record = self.jobs[one.job]
        assert record.plan is not None
        kept = record.plan.before(now - 1 if one.lost_slot else now).slots
        record.num_lost_slots += one.lost_slot
        record.refunded = one.found is None
        record.plan = EdgePlan((*kept, *(one.found.slots if one.found else ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBill:
    """One job.

    Attributes:
        job: its id.
        state: "rejected", "done", "refunded", "failed" (its training has diverged) or "unfinished".
        payment: what was promised at its admission, and paid.
        refund: what of it was given back.
        promised, finish: its last slot by the decision, and as it was; None if it has none.
        utility: of that; 0 unless done.
        slots: number of slots that were trained.
        lost_slots: number of slots that were lost.
        loss, validation_loss: at the end; None if there is none.
        seconds: of training.
        planned_mb: traffic of its trained slots by the plan (2d).
        counted_mb: the same, as measured: chunks that were fetched, workers away.
        chunk_mb, parameter_mb: bytes that crossed sites, of chunks, and of weights and gradients.
    """

    job: str
    state: str
    payment: Money
    refund: Money
    promised: int | None
    finish: int | None
    utility: float
    slots: int
    lost_slots: int
    loss: float | None
    validation_loss: float | None
    seconds: float
    planned_mb: float
    counted_mb: float
    chunk_mb: float
    parameter_mb: float


@dataclass(frozen=True, slots=True)
class EdgeRunReport:
    """Report of a run.

    Attributes:
        jobs: in the order of their decisions.
        lost: lost sites, by the slot since when.
    """

    jobs: tuple[JobBill, ...]
    lost: dict[str, int]

    @property
    def welfare(self) -> float:
        """Sum of the utilities of jobs that are done."""
        return sum(bill.utility for bill in self.jobs)

    @property
    def income(self) -> Money:
        """Payments less refunds."""
        return sum((bill.payment - bill.refund for bill in self.jobs), ZERO)


def make_report(state: EdgeRunState) -> EdgeRunReport:
    """Return the report of a run that has ended."""
    market = state.instance.market
    jobs = tuple(_bill(record, market) for record in state.jobs.values())
    return EdgeRunReport(jobs, dict(state.lost))


def write_report(path: Path, report: EdgeRunReport) -> None:
    """Write a report as JSON."""
    value = {
        "welfare": report.welfare,
        "income": float(report.income),
        "lost_sites": report.lost,
        "jobs": [
            {name: _plain(getattr(bill, name)) for name in JobBill.__slots__}
            for bill in report.jobs
        ],
    }
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, text.encode() + b"\n")


def _plain(value: Any) -> Any:
    """Return a value as JSON; null for the loss of a training that diverged."""
    if isinstance(value, Decimal):
        return float(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _bill(record: JobRecord, market: EdgeMarket) -> JobBill:
    outcomes = [record.trained[slot] for slot in sorted(record.trained)]
    last = outcomes[-1] if outcomes else None
    parts = [p for p in (record.plan.slots if record.plan else ()) if p.slot in record.trained]
    job = record.job
    finish = parts[-1].slot if record.is_done else None
    payment, kept = record.decision.payment, record.is_done or record.diverged
    return JobBill(
        job=job.id,
        state=_state(record),
        payment=payment,
        refund=ZERO if kept or not record.decision.admitted else payment,
        promised=record.decision.finish,
        finish=finish,
        utility=0.0 if finish is None else job.value(finish),
        slots=len(outcomes),
        lost_slots=record.num_lost_slots,
        loss=last.loss if last else None,
        validation_loss=last.validation_loss if last else None,
        seconds=sum(one.seconds for one in outcomes),
        planned_mb=sum(part.traffic_mb(job, market) for part in parts),
        counted_mb=sum(
            market.chunk_mb * one.chunks_crossed + job.parameter_mb * one.workers_away
            for one in outcomes
        ),
        chunk_mb=sum(one.chunk_bytes for one in outcomes) / _MB,
        parameter_mb=sum(one.parameter_bytes for one in outcomes) / _MB,
    )


def _state(record: JobRecord) -> str:
    if not record.decision.admitted:
        return "rejected"
    if record.refunded:
        return "refunded"
    if record.diverged:
        return "failed"
    return "done" if record.is_done else "unfinished"
