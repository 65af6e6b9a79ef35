"""State of a timeshare zone: its jobs, decisions, events, state and rows.

The service and replays call the same functions of decisions. A unit of the pool is a slot of the
zone; an event's `number` counts the events of the pool, which goes on from them after a restart.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field

from auctune.domain import Money, Reason, round_money
from auctune.domain.data_size import DataSize
from auctune.domain.money import ZERO
from auctune.domain.training import Method
from auctune.engine.pool.epoch import MAX_OVERRUN_QUANTA
from auctune.engine.unix_time import SlotClock
from auctune.service.jobs.training import Training, ZoneBid
from auctune.service.storage.event_log import EventType, Record, ZoneEvent, job_of
from auctune.service.storage.queries import Effects, JobReadModel, Status
from auctune.service.zones.core.events import (
    EventData,
    JobCancelled,
    JobFailed,
    JobMetered,
    JobNoted,
    JobResumed,
    JobTrained,
    MeteredDecided,
)
from auctune.service.zones.core.job import (
    Estimate,
    Meter,
    MeteredDecision,
    MeteredJob,
    PendingJob,
    Phase,
    reserved_amount,
)
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    EventMessage,
    JobRow,
    MeteredProjection,
    MeteredRow,
    Usage,
)
from auctune.service.zones.core.state import Reducer, ZoneModel, ZoneState

MAX_POINTS = 64

Point = tuple[int, float, float]
"""Batches at its end, mean loss over its batches, and seconds of the pool."""


@dataclass
class LossCurve:
    """Loss curve of a job, of bounded size.

    A point is a unit of time, or several merged ones. Where there would be more than MAX_POINTS
    points, each two of them become one.

    Attributes:
        points: oldest first.
    """

    points: list[Point] = field(default_factory=list)

    @property
    def batches(self) -> int:
        """Trained in all."""
        return self.points[-1][0] if self.points else 0

    @property
    def seconds(self) -> float:
        return sum(seconds for _, _, seconds in self.points)

    def add(self, batches: int, loss: float, seconds: float) -> None:
        """Add a unit of at least one batch, with a finite mean loss."""
        self.points.append((self.batches + batches, loss, seconds))
        if len(self.points) > MAX_POINTS:
            # The newest point stays exact.
            *older, newest = self.points
            starts = range(0, len(older), 2)
            self.points = [self._merge(older, start) for start in starts] + [newest]

    def _merge(self, points: list[Point], start: int) -> Point:
        first = points[start]
        if start + 1 == len(points):
            return first
        second = points[start + 1]
        before = points[start - 1][0] if start else 0
        one, two = first[0] - before, second[0] - first[0]
        loss = (one * first[1] + two * second[1]) / (one + two)
        return second[0], loss, first[2] + second[2]


MAX_COMPLETED_JOBS = 50
"""Completed jobs that a zone keeps."""

MIN_POINTS = 3
"""Points that a curve must have to be of use."""


@dataclass(frozen=True, slots=True)
class Features:
    """Features by which jobs are similar.

    Attributes:
        rows, mean_tokens: of the data.
        learning_rate, rank, batch_size, method: of the training.
        has_start: whether it starts from an adapter.
    """

    rows: int
    mean_tokens: float
    learning_rate: float
    rank: int
    batch_size: int
    # Omitted from snapshots at the default, so that those of earlier releases stay the same.
    method: Annotated[Method, Field(exclude_if=lambda method: method == "supervised")] = (
        "supervised"
    )
    has_start: Annotated[bool, Field(exclude_if=lambda has_start: not has_start)] = False

    @classmethod
    def of(cls, training: Training, size: DataSize) -> "Features":
        return cls(
            size.rows,
            size.mean_tokens,
            training.learning_rate,
            training.rank,
            training.batch_size,
            training.method,
            training.start_from is not None,
        )

    def distance(self, other: "Features") -> float:
        """Return the sum of the differences of their logarithms, >= 0.

        It is infinite where losses do not compare: of different methods, or where one job alone
        starts from an adapter.
        """
        if (self.method, self.has_start) != (other.method, other.has_start):
            return math.inf
        return math.fsum(
            abs(math.log(mine / its))
            for mine, its in zip(self._numbers, other._numbers, strict=True)
        )

    @property
    def _numbers(self) -> tuple[float, ...]:
        return self.rows, self.mean_tokens, self.learning_rate, self.rank, self.batch_size

    @property
    def batch_tokens(self) -> float:
        """Tokens of a batch; its seconds are assumed to be proportional to them."""
        return self.batch_size * self.mean_tokens


@dataclass(frozen=True, slots=True)
class CompletedJob:
    """A completed job, kept to forecast similar ones."""

    id: str
    owner: str
    features: Features
    curve: LossCurve


@dataclass
class Departure:
    """Departure of a job from the pool.

    Attributes:
        reason: as of `auctune.engine.pool.events.ExitReason`.
        why: an error in words, or empty.
        best: loss of the unit whose adapter is the result, or None if there is no adapter.
    """

    reason: str
    why: str
    best: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetProgress:
    """Progress of a job towards its target loss.

    Attributes:
        deadline_unit, best_loss, share, verdict: see `TimeshareJob`.
        finish_unit: `finish` of the job.
        pool_seconds: that it has trained; the integer 0 before the first.
        curve: batches and loss; a point of a long curve stands for several units.
    """

    target_loss: float
    deadline_unit: int
    best_loss: float | None
    share: float
    finish_unit: float | None
    verdict: str | None
    pool_seconds: int | float
    curve: list[tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareDecision(MeteredDecision):
    """Decision on a job."""

    target_loss: float


@dataclass(kw_only=True)
class TimeshareJob(MeteredJob):
    """An admitted job of a timeshare zone. Its number of rows is unknown: progress counts to 0.

    Attributes:
        target_loss: that the mean of a unit must reach.
        deadline_unit: by whose beginning.
        has_joined: whether it has been in the pool.
        curve: of its losses.
        best: lowest loss of a unit so far, or None.
        share: of the pool in the newest unit.
        finish: unit at which it will finish if its share stays, or None if that is unknown.
        departure: how it left the pool, or None.
    """

    decision: TimeshareDecision
    size: DataSize
    target_loss: float
    deadline_unit: int
    has_joined: bool = False
    curve: LossCurve = field(default_factory=LossCurve)
    best: float | None = None
    share: float = 0.0
    finish: float | None = None
    verdict: str | None = None
    departure: Departure | None = None

    @property
    def is_cap_reached(self) -> bool:
        """Return whether nothing more may be charged."""
        return self.meter.remaining == ZERO

    @property
    def cost(self) -> Money:
        return self.meter.charged

    @property
    def target(self) -> TargetProgress:
        return TargetProgress(
            target_loss=self.target_loss,
            deadline_unit=self.deadline_unit,
            best_loss=self.best,
            share=self.share,
            finish_unit=self.finish,
            verdict=self.verdict,
            pool_seconds=self.curve.seconds,
            curve=[(batches, loss) for batches, loss, _ in self.curve.points],
        )


@dataclass
class CancelledJob:
    """A cancelled job; it is charged for what the pool trains until it is dropped."""

    job: TimeshareJob
    seq: int
    at: float


@dataclass(frozen=True, slots=True)
class EstimateInputs:
    """Inputs of an estimate.

    Attributes:
        seq: number of the newest event of the zone.
        first_unit: first unit that the job can begin in.
    """

    seq: int
    first_unit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareBid(ZoneBid):
    """Bid in a timeshare zone.

    Attributes:
        cap: maximum of all charges.
        deadline_unit: unit by whose beginning the job must be done.
    """

    size: DataSize
    target_loss: float
    cap: Money
    deadline_unit: int
    estimate: Estimate
    estimate_inputs: EstimateInputs


def decide(
    estimate: Estimate | None, cap: Money, left: Money | None, target_loss: float
) -> TimeshareDecision:
    """Decide on a job.

    `left` is what remains of the owner's budget; without an estimate the job is rejected.
    """
    reserved = reserved_amount(cap, left)
    admitted = reserved > ZERO or cap == ZERO
    return TimeshareDecision(
        admitted=admitted,
        reason=None if admitted else Reason.OVER_BUDGET,
        max_cost=reserved if admitted else cap,
        estimate=estimate,
        target_loss=target_loss,
    )


def charge_amount(seconds: float, price: Money, left: Money) -> Money:
    """Return the charge for seconds of the pool, at most what is left of the cap."""
    return min(left, round_money(float(price) * seconds))


def held_after_cancel(price: Money, unit_seconds: float, left: Money) -> Money:
    """Return the amount still set aside of a cancelled job: the most that one unit may cost."""
    return charge_amount(MAX_OVERRUN_QUANTA * unit_seconds, price, left)


Number = int | float


class TimeshareEventType(StrEnum):
    """Types of events of timeshare zones only."""

    UNIT_TRAINED = "pool.unit_trained"
    POOL_ENDED = "pool.ended"
    JOINED_POOL = "job.joined_pool"
    LEFT_POOL = "job.left_pool"
    SETTLED = "job.settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareDecided(MeteredDecided):
    """A job was decided on; its target is to be reached by the beginning of `deadline_unit`."""

    decision: TimeshareDecision
    deadline_unit: int
    estimate_inputs: EstimateInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTrained(EventData):
    """The pool trained `span` units from `unit` on; `shares` are those of its jobs."""

    type = TimeshareEventType.UNIT_TRAINED

    number: int
    unit: int
    span: Number
    shares: dict[str, Number]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEnded(EventData):
    """All jobs of a run have ended; the fields are those of the device's `MemoryState`."""

    type = TimeshareEventType.POOL_ENDED

    suspended: int
    resumed: int
    seconds: Number
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobJoined(EventData):
    """A job was loaded into the pool.

    Attributes:
        rate: estimate of its batches a unit, from which on it follows what the job trains.
        memory: bytes.
    """

    type = TimeshareEventType.JOINED_POOL

    number: int
    unit: int
    rate: Number
    memory: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareMetered(JobMetered):
    """A job was charged for seconds of the pool.

    Attributes:
        batches: that were trained; 0 for loading.
        loss: mean over the batches, or None.
        finish: unit at which the job is forecast to finish, or None.
        verdict: of the pool, or None.
        charged_seconds: fewer than `seconds`, as the batches would have taken at the speed that was
            sold; or None.
    """

    unit: int
    seconds: Number
    batches: int
    loss: float | None
    share: Number
    finish: Number | None
    verdict: str | None
    charged_seconds: Annotated[Number | None, Field(exclude_if=lambda seconds: seconds is None)] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLeft(EventData):
    """A job left the pool.

    Attributes:
        how: as of `auctune.engine.pool.events.ExitReason`.
        best: loss of the unit whose adapter is the result, or None.
    """

    type = TimeshareEventType.LEFT_POOL

    number: int
    how: str
    why: str
    best: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNoted(JobNoted):
    """The pool noted something for a job's owner."""

    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareCancelled(JobCancelled):
    """A job was cancelled that the pool may be training.

    Attributes:
        held: still set aside for what the pool trains until it drops the job; None if the job
            was not in the pool.
    """

    held: Money | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareFailed(JobFailed):
    """A job failed; `files` are the ids of the results that it has nevertheless."""

    files: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettled(EventData):
    """The pool has dropped a cancelled job; what was set aside is released."""

    type = TimeshareEventType.SETTLED


# The only reason for which a job is rejected.
_OVER_BUDGET = "the budget is used up"


def _target(body: Record, request: Record, clock: SlotClock) -> Record:
    found = body["target"]
    known = {} if found is None else found
    return {
        "target_loss": request["target_loss"],
        "best_loss": known.get("best_loss"),
        "share": known.get("share", 0.0),
        "finish": _time(known.get("finish_unit"), clock),
        "verdict": known.get("verdict"),
        "pool_seconds": known.get("pool_seconds", 0.0),
        "curve": known.get("curve", []),
    }


def _time(unit: float | None, clock: SlotClock) -> float | None:
    return None if unit is None else clock.epoch + unit * clock.slot_seconds


def _decided(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    if not decision["admitted"]:
        return f"Rejected ({decision['reason']}): {_OVER_BUDGET}"
    chance = decision["estimate"]["success_probability"]
    return (
        f"Admitted for at most {decision['max_cost']}, without a guarantee: "
        f"the estimated probability of meeting the target is {chance:.2f}"
    )


def _metered(body: Mapping[str, Any]) -> str:
    what = "" if body["batches"] else " to load the job or for an interrupted batch"
    if "charged_seconds" in body:
        what += f", {body['charged_seconds']:.1f} s of them charged"
    return f"{body['seconds']:.1f} s of the pool{what}, for {body['amount']}"


def _trained(body: Mapping[str, Any]) -> str:
    result = body["result"]
    loss = f"loss {result['losses'][-1][3]:.4g}" if result["losses"] else "no loss"
    return f"{result['steps']} batches trained, {loss}"


def _left(body: Mapping[str, Any]) -> str:
    ways = {
        "reached": "The target loss is reached",
        "missed": "The deadline has passed before the target loss was reached",
        "ended": "The cost has reached max_cost",
        "slow": "A batch took longer than a job may hold the pool",
    }
    return ways.get(body["how"], "It has left the pool") + "; its best adapter is being packed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareRow(MeteredRow):
    """Row of a job."""

    decision: TimeshareDecision | None = None
    target: TargetProgress | None = None


class TimeshareProjection(MeteredProjection[TimeshareJob]):
    """Projection of timeshare jobs."""

    messages: Mapping[str, EventMessage] = {
        **COMMON_MESSAGES,
        EventType.DECIDED: EventMessage(_decided),
        EventType.METERED: EventMessage(
            _metered, data_fields=("amount", "unit", "seconds", "share")
        ),
        EventType.TRAINED: EventMessage(_trained),
        TimeshareEventType.JOINED_POOL: EventMessage(lambda _: "It has joined the pool"),
        TimeshareEventType.LEFT_POOL: EventMessage(_left),
        TimeshareEventType.SETTLED: EventMessage(
            lambda _: "The pool has removed it; the amount on hold is released"
        ),
    }
    row: ClassVar[type[JobRow]] = TimeshareRow

    def usage(self, body: Mapping[str, Any], clock: SlotClock) -> Usage:
        seconds = body["charged_seconds"] if "charged_seconds" in body else body["seconds"]
        return Usage(seconds, "Seconds", is_fixed_price=True)

    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        return _OVER_BUDGET

    def rejected_param(self, body: Mapping[str, Any]) -> str:
        return "market.max_cost"

    def cancelled(self, event: ZoneEvent, cancelled: CancelledJob) -> JobReadModel:
        """Return the row of a cancelled job after an event that changes its cost."""
        last = replace(event, type=EventType.CANCELLED, at=cancelled.at)
        return self.closed(last, cancelled.job, Status.CANCELLED, refunded=False)

    def market(self, row: JobReadModel, clock: SlotClock) -> Record:
        target = _target(row.body, row.body["request"], clock)
        return {**self.market_fields(row), "metered": self.metered_fields(row), "target": target}

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        """Return when the target will be reached if the share stays, or None if unknown."""
        target = row.body["target"]
        return None if target is None else _time(target["finish_unit"], clock)


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
        assert data.decision.max_cost is not None
        return TimeshareJob(
            **vars(pending),
            size=data.size,
            decision=data.decision,
            target_loss=data.decision.target_loss,
            deadline_unit=data.deadline_unit,
            meter=Meter(pending.owner, data.decision.max_cost),
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
