"""State of a spot zone: its jobs, decisions, events, state and rows.

Decisions are pure functions: the service and replays call the same. A job is admitted if its cost
is within the owner's cap and budget with a probability of 0.9. With the expected cost, every other
job would reach a cap just above it and be charged for nothing; with the worst case, hardly any job
would be admitted. At 0.9 owners can compare the cost with the prices of other zones.

A job's own slots are numbered from its first slot. Prices are relative to the on-demand price.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median
from typing import Annotated, Any, ClassVar

from pydantic import Field

from auctune.domain import Money, Reason, round_money
from auctune.domain.data_size import DataSize
from auctune.domain.money import ZERO
from auctune.engine.spot.job_config import SpotJobSpec, SpotStrategy, estimate
from auctune.engine.spot.traces import LoopedTrace
from auctune.engine.unix_time import SlotClock
from auctune.service.jobs.terms import JobValue
from auctune.service.jobs.training import ZoneBid
from auctune.service.ledger import instance_cost
from auctune.service.storage.event_log import EventType, Record, ZoneEvent, job_of
from auctune.service.storage.queries import Effects, JobReadModel
from auctune.service.zones.core.events import (
    EventData,
    JobFailed,
    JobMetered,
    JobPaused,
    JobTrained,
    MeteredDecided,
    SlotStarted,
)
from auctune.service.zones.core.job import (
    MAX_SHORTFALL,
    Estimate,
    Meter,
    MeteredDecision,
    MeteredJob,
    PendingJob,
    Phase,
    Progress,
)
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    EventMessage,
    JobRow,
    MeteredProjection,
    MeteredRow,
    Usage,
)
from auctune.service.zones.core.state import Reducer, SlottedState, ZoneModel

CAP_REACHED = "cap_reached"
"""Code of the failure of a job that its cap ended."""


KEPT_JOBS = 20
"""Number of newest jobs whose measurements are kept: machines and their load change."""

_START_LEVEL = 0.9


@dataclass(frozen=True, slots=True)
class Pace:
    """Expected start time and speed of the next job.

    Attributes:
        start_seconds: from the admission of a job until its process can train.
        speeds: ratio of the measured work of instances to that of their profile; one value for
            each of the newest jobs, the newest first.
    """

    start_seconds: float
    speeds: tuple[float, ...]

    @property
    def speed(self) -> float:
        """Speed with which a job is planned: the median."""
        return median(self.speeds)


def learned_pace(starts: Sequence[float], speeds: Sequence[float], prior_start: float) -> Pace:
    """Return the pace learned from past starts and speeds, the oldest first.

    A plan begins after a start that 9 of 10 processes kept, as each slot missed is lost.
    """
    start = prior_start
    if starts:
        start = sorted(starts)[math.ceil(_START_LEVEL * len(starts)) - 1]
    return Pace(start, tuple(reversed(speeds)) or (1.0,))


@dataclass(frozen=True, slots=True)
class ReachedValue(JobValue):
    """Value of a job by time; `reached` is that of the time at which it was done, or None."""

    reached: Money | None = None


@dataclass(frozen=True, slots=True)
class StrategyLabels:
    """Policy and forecaster of a job, as their settings name them."""

    policy: str
    forecast: str


@dataclass(kw_only=True)
class SpotJobState(MeteredJob):
    """An admitted job of a spot zone.

    Attributes:
        terms: the job as the policy sees it.
        speed: of instances, relative to their profile, that the terms count on.
        unit_cost, unit_price: of an on-demand instance for a slot, to the service and its owner.
        worth: value by time.
        promised: work that its instances would have done so far by their profile.
        newest_promised: the same of its newest slot.
        count: instances in its newest slot.
        on_demand: those of them that are on-demand; 0 by total, where the kind does not matter.
        next_trained: results of all its slots below are recorded.
        finish: when its last row was trained, in its own slots, or None.
        was_paused: whether its owner has paused it: slots that it missed may be due to that.
    """

    size: DataSize
    first: int
    terms: SpotJobSpec
    speed: float
    policy: str
    forecast: str
    unit_cost: float
    unit_price: float
    worth: ReachedValue
    promised: float = 0.0
    newest_promised: float = 0.0
    count: int = 0
    on_demand: Annotated[int, Field(exclude_if=lambda on_demand: not on_demand)] = 0
    next_trained: int = 0
    finish: float | None = None
    was_paused: Annotated[bool, Field(exclude_if=lambda paused: not paused)] = False

    @property
    def total_rows(self) -> int:
        return self.size.total_rows(self.training.epochs)

    @property
    def deadline_slots(self) -> int:
        return self.terms.deadline

    def lost_in_newest_slot(self, spot_before: int) -> int:
        """Return how many spot instances of its newest slot are lost if so many are left."""
        if self.terms.start is None:
            return 0
        return self.count - self.on_demand - spot_before

    def count_instances(self, on_demand: int, spot: int, share: float, preempted: int) -> None:
        """Count the instances that it holds for a share of a slot.

        `preempted` spot instances were lost within the slot before.
        """
        work, count = 0.0, on_demand + spot
        if count:
            job = self.terms.job()
            last = self.on_demand, self.count - self.on_demand - preempted
            effective = job.effective_share((on_demand, spot), last)
            work = effective * float(job.scaling.throughput(count)) * share
        self.promised += work
        self.newest_promised, self.count = work, count
        self.on_demand = 0 if self.terms.start is None else on_demand

    def is_slower_than_sold(self, rows: int, preempted: int) -> bool:
        """Return whether its newest slot, which ends with so many rows, trained less than sold.

        A slot that lost instances is not compared, and an optimizer batch may have just begun.
        """
        if preempted or rows >= self.total_rows or not self.newest_promised:
            return False
        sold = self.newest_promised / self.terms.workload * self.total_rows
        # Rows of validation data take less time than others.
        before, after = (
            self.size.share_of(count, self.training.epochs) for count in (self.progress.rows, rows)
        )
        done = (after - before) * self.total_rows + self.training.batch_size
        return done < (1.0 - MAX_SHORTFALL) * sold

    def speed_seen(self, done: float) -> float | None:
        """Return the work done relative to what was promised, or None if there was none."""
        promised = self.promised
        if self.finish is not None and self.finish <= self.terms.deadline:
            # The newest slot was not used to its end.
            unused = min(max(self.meter.next_slot - self.finish, 0.0), 1.0)
            promised -= unused * self.newest_promised
        if done <= 0.0 or promised <= 0.0:
            return None
        return done * self.terms.workload * self.speed / promised


OVER_CAP = "over_cap"
"""Why a job was rejected, besides `Reason`: its cost may exceed its cap."""


ESTIMATOR = 2
"""Number of the rule of estimates: raised when the same inputs come to another estimate."""


@dataclass(frozen=True, slots=True)
class EstimateInputs:
    """Inputs of an estimate; slots may have begun since.

    Attributes:
        first: first slot of the job.
        deadline, hard_factor: see `SpotJobSpec`.
        start_seconds, speeds: see `Pace`, by which the job is planned too.
        max_cost: limit of the expected cost, see `estimate_of`; `None`: there was none, as in logs
            of earlier releases.
        estimator: `ESTIMATOR` of the release that estimated.
    """

    slot: int
    first: int
    deadline: int
    hard_factor: float
    start_seconds: float
    speeds: tuple[float, ...]
    max_cost: Money | None = None
    estimator: int = ESTIMATOR

    @property
    def pace(self) -> Pace:
        """The pace of the zone then."""
        return Pace(self.start_seconds, self.speeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotBid(ZoneBid):
    """Bid in a spot zone.

    Attributes:
        worth: value of the job by finish time.
        cap: maximum of all charges.
        estimate: of cost and finish, made just before.
    """

    size: DataSize
    worth: JobValue
    cap: Money
    estimate: Estimate
    estimate_inputs: EstimateInputs


def decide(
    estimate: Estimate, cap: Money, left: Money | None, num_open: int, max_jobs: int
) -> MeteredDecision:
    """Decide on a job.

    `left` is what remains of the owner's budget; of `max_jobs` jobs `num_open` are not over.
    """
    need = estimate.p90_cost
    reason: str | None = None
    if num_open >= max_jobs:
        reason = Reason.NO_CAPACITY
    elif need > cap:
        reason = OVER_CAP
    elif left is not None and need > left:
        reason = Reason.OVER_BUDGET
    return MeteredDecision(
        admitted=reason is None,
        reason=reason,
        max_cost=cap,
        min_max_cost=need if reason == OVER_CAP else None,
        estimate=estimate,
    )


def first_slot(clock: SlotClock, slot: int, ready_at: float) -> int:
    """Return the first slot after `slot` that begins when a job can train."""
    return max(slot + 1, clock.first_slot_from(ready_at))


def estimate_of(
    terms: SpotJobSpec,
    first: int,
    slot: int,
    pace: Pace,
    renting: SpotStrategy,
    market: LoopedTrace,
    clock: SlotClock,
    unit_price: float,
    max_cost: Money | None,
) -> Estimate:
    """Estimate the cost and finish of a job from the market seen so far; takes a while.

    The terms are based on `pace`, whose speeds are equally likely. `unit_price` is that of an
    on-demand instance for a slot. The job ends when it has cost `max_cost`, so a simulated course
    that costs more counts as `max_cost`; `None`: the cost at p90, which is the cap of an accepted
    quote that names none.
    """
    speeds = [speed / pace.speed for speed in pace.speeds]
    found = estimate(terms.job(), renting, market.history(slot), first - slot, speeds)
    begins, seconds = clock.slot_start(first), clock.slot_seconds
    p90_cost = round_money(found.cost_p90 * unit_price)
    limit = float(p90_cost if max_cost is None else max_cost)
    paid = found.mean_cost(limit / unit_price if unit_price else math.inf)
    return Estimate(
        expected_cost=round_money(paid * unit_price),
        p90_cost=p90_cost,
        finish=begins + found.finish_p50 * seconds,
        finish_p90=begins + found.finish_p90 * seconds,
        risk=found.risk,
    )


def charge_amount(paid: float, unit_price: float, left: Money, *, is_free: bool = False) -> Money:
    """Return the charge for a payment in units of the on-demand price.

    What exceeds the rest of the cap is a rounding error, and not charged. Work after the deadline
    `is_free` if the service has missed slots of the job.
    """
    return ZERO if is_free else min(round_money(paid * unit_price), left)


def value_at(worth: JobValue, time: float) -> Money | None:
    """Return the value of a job that is done at a time, or None if its owner gave no value."""
    amount = worth.amount
    if amount is None or time <= worth.deadline:
        return amount
    if time >= worth.zero_at:
        return amount * 0
    share = (worth.zero_at - time) / (worth.zero_at - worth.deadline)
    return (amount * Money(share)).quantize(amount)


class SpotEventType(StrEnum):
    """Types of events of spot zones only."""

    PROCESS_READY = "job.process_ready"
    RUN_EVENT = "job.run_event"
    TRAINING_COMPLETED = "job.training_completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSlotStarted(SlotStarted):
    """A slot began, with the price of a spot instance, and instances available per job."""

    price: float
    available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotDecided(MeteredDecided):
    """A job was decided on, by its estimate.

    Attributes:
        jobs: that the zone runs at once.
        estimate_inputs: None for the job of a run without a service, which has no estimate.
        held: set aside for the job.
        ready_at: unix time at which its process was expected to be able to train.
        unit_cost, unit_price: of an on-demand instance for a slot, to the service and its owner.
    """

    jobs: int
    estimate_inputs: EstimateInputs | None
    held: Money
    first: int
    ready_at: float
    terms: SpotJobSpec
    renting: StrategyLabels
    unit_cost: float
    unit_price: float
    worth: ReachedValue

    @property
    def deadline_slots(self) -> int:
        return self.terms.deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotMetered(JobMetered):
    """What a job held in a slot, and the charge for it, which may be 0.

    Attributes:
        at: slot of the zone.
        share: part of the slot that was paid; below 1 only after the deadline.
        missed: whether the job's process was not running yet.
        preempted: spot instances lost within the job's slot before; 0 if changes of instances are
            charged by total.
    """

    at: int
    share: float
    price: float | None
    on_demand: int
    spot: int
    missed: bool
    preempted: Annotated[int, Field(exclude_if=lambda preempted: not preempted)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotTrained(JobTrained):
    """A slot of a job, by its number within the job, was trained.

    Attributes:
        refund: of the slot's charge, as the machine was slower than sold; or None.
    """

    number: int
    refund: Annotated[Money | None, Field(exclude_if=lambda refund: refund is None)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEventRecorded(EventData):
    """An event of a job's run, from which its process goes on; see `auctune.engine.spot.state`.

    What it means for the job and its owner is recorded with it, by events of their own.
    """

    type = SpotEventType.RUN_EVENT

    event: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReady(EventData):
    """The process of a job can train, after so many seconds."""

    type = SpotEventType.PROCESS_READY

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCompleted(EventData):
    """All data of a job are trained; its result is to be archived.

    Attributes:
        finish: in slots of the job.
        worth: value of the job at that time, or None.
    """

    type = SpotEventType.TRAINING_COMPLETED

    state: str
    note: str
    finish: float
    worth: Money | None


_REASONS: dict[str, str] = {
    OVER_CAP: "the cost exceeds the cap with a probability of more than 0.1",
    Reason.OVER_BUDGET: "the cost exceeds the remaining budget with a probability of more than 0.1",
    Reason.NO_CAPACITY: "the zone runs its maximum number of jobs",
}
_PARAMS: dict[str, str | None] = {
    OVER_CAP: "market.max_cost",
    Reason.OVER_BUDGET: "market.max_cost",
    Reason.NO_CAPACITY: None,
}


def _rejection_reason(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    least = decision["min_max_cost"]
    return _REASONS[decision["reason"]] + ("" if least is None else f"; {least} would be enough")


def _decided(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    if not decision["admitted"]:
        return f"Rejected ({decision['reason']}): {_rejection_reason(body)}"
    found = decision["estimate"]
    return (
        f"Admitted: {found['expected_cost']} expected, {found['p90_cost']} at p90, "
        f"{body['held']} at most; risk of being late {found['risk']:.0%}"
    )


def _metered(body: Mapping[str, Any]) -> str:
    if body["missed"]:
        return f"Slot {body['at']} skipped: the job's process was not running yet; nothing charged"
    held = f"{body['on_demand']} on-demand and {body['spot']} spot instances"
    return f"Slot {body['at']}: {held}, {body['amount']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRow(MeteredRow):
    """Row of a job: its first slot, the number of its slots up to the deadline, and its value."""

    decision: MeteredDecision | None = None
    first: int | None = None
    deadline_slots: int | None = None
    worth: ReachedValue | None = None


class SpotProjection(MeteredProjection[SpotJobState]):
    """Projection of spot jobs."""

    messages: Mapping[str, EventMessage] = {
        **COMMON_MESSAGES,
        EventType.DECIDED: EventMessage(_decided),
        EventType.METERED: EventMessage(
            _metered, data_fields=("amount", "at", "price", "on_demand", "spot", "missed")
        ),
        SpotEventType.TRAINING_COMPLETED: EventMessage(
            lambda _: "Training is complete; the adapter is being packed"
        ),
    }
    row: ClassVar[type[JobRow]] = SpotRow

    def usage(self, body: Mapping[str, Any], clock: SlotClock) -> Usage:
        num_instances = body["on_demand"] + body["spot"]
        return Usage(num_instances * body["share"] * clock.slot_seconds, "Instance-Seconds")

    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        return _rejection_reason(body)

    def rejected_param(self, body: Mapping[str, Any]) -> str | None:
        return _PARAMS[body["decision"]["reason"]]

    def market(self, row: JobReadModel, clock: SlotClock) -> Record:
        metered, payment = self.metered_fields(row), None
        if metered is not None and row.body["finished_at"] is not None:
            payment = metered["cost"] if row.body["decision"]["admitted"] else None
        return {**self.market_fields(row), "payment": payment, "metered": metered}

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        """Return the finish that was estimated at admission."""
        decision = row.body["decision"]
        if decision is None or not decision["admitted"]:
            return None
        finish: float = decision["estimate"]["finish"]
        return finish


MAX_SLOTS = 512


@dataclass
class SlotStats:
    """Market and use of one slot, for operators.

    Attributes:
        slot: number.
        price: of a spot instance when it began, relative to the on-demand price.
        available: spot instances per job when it began.
        on_demand, spot: instances held in it, over all jobs.
    """

    slot: int
    price: float
    available: int
    on_demand: int = 0
    spot: int = 0


@dataclass(kw_only=True)
class SpotState(SlottedState[SpotJobState]):
    """State of a spot zone.

    Attributes:
        slots: the newest slots, by number.
        starts: seconds that the newest processes took to start, the oldest first.
        speeds: of the newest jobs, the oldest first: work done relative to what their instances'
            profile promised. Jobs that reached their cap count too: slow ones do not finish.
    """

    projection: ClassVar[SpotProjection] = SpotProjection()

    jobs: dict[str, SpotJobState] = field(default_factory=dict)
    slots: dict[int, SlotStats] = field(default_factory=dict)
    starts: list[float] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)

    def admit(self, event: ZoneEvent, data: SpotDecided, pending: PendingJob) -> SpotJobState:
        inputs = data.estimate_inputs
        job = SpotJobState(
            **vars(pending),
            size=data.size,
            first=data.first,
            terms=data.terms,
            speed=1.0 if inputs is None else inputs.pace.speed,
            policy=data.renting.policy,
            forecast=data.renting.forecast,
            unit_cost=data.unit_cost,
            unit_price=data.unit_price,
            decision=data.decision,
            worth=data.worth,
            meter=Meter(pending.owner, data.held),
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def _slot_began(self, _event: ZoneEvent, data: SpotSlotStarted) -> Effects:
        self.slot = data.slot
        self.slots[self.slot] = SlotStats(self.slot, data.price, data.available)
        while len(self.slots) > MAX_SLOTS:
            del self.slots[next(iter(self.slots))]
        return Effects()

    def _metered(self, event: ZoneEvent, data: SpotMetered) -> Effects:
        job = self.jobs[job_of(event)]
        entries = job.meter.charge(data.slot, data.amount)
        job.count_instances(data.on_demand, data.spot, data.share, data.preempted)
        stats = self.slots.get(data.at)
        if stats is not None:
            stats.on_demand += data.on_demand
            stats.spot += data.spot
        paid = instance_cost(event.zone, data.cost)
        return Effects((self.projection.open(event, job),), entries + paid)

    def _trained(self, event: ZoneEvent, data: SpotTrained) -> Effects:
        job = self.jobs[job_of(event)]
        assert data.number >= job.next_trained, data.number
        job.next_trained = data.number + 1
        job.progress = job.progress.after(data.result)
        if job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        entries = () if data.refund is None else job.meter.give_back(data.refund)
        return Effects((self.projection.open(event, job),), entries)

    def _paused(self, event: ZoneEvent, data: JobPaused) -> Effects:
        self.jobs[job_of(event)].was_paused = True
        return super()._paused(event, data)

    def _completed(self, event: ZoneEvent, data: TrainingCompleted) -> Effects:
        job = self.jobs[job_of(event)]
        job.phase, job.finish = Phase.TRAINED, data.finish
        self._learn_speed(job, 1.0)
        job.worth = replace(job.worth, reached=data.worth)
        if data.note:
            job.notes.append(data.note)
        return self.show(event, job)

    def _failed(self, event: ZoneEvent, data: JobFailed) -> Effects:
        job = self.jobs.get(job_of(event))
        if job is not None and data.code == CAP_REACHED:
            rows, epochs = job.progress.rows, job.training.epochs
            self._learn_speed(job, job.size.share_of(rows, epochs))
        return super()._failed(event, data)

    def _ready(self, _event: ZoneEvent, data: ProcessReady) -> Effects:
        self.starts = [*self.starts, data.seconds][-KEPT_JOBS:]
        return Effects()

    def _run_event(self, _event: ZoneEvent, _data: RunEventRecorded) -> Effects:
        return Effects()

    def _learn_speed(self, job: SpotJobState, done: float) -> None:
        speed = job.speed_seen(done)
        if speed is not None:
            self.speeds = [*self.speeds, speed][-KEPT_JOBS:]

    reducers: ClassVar[Mapping[type[EventData], Reducer]] = {
        **SlottedState.reducers,
        SpotSlotStarted: _slot_began,
        SpotDecided: SlottedState._decided,
        SpotMetered: _metered,
        SpotTrained: _trained,
        JobFailed: _failed,
        JobPaused: _paused,
        ProcessReady: _ready,
        RunEventRecorded: _run_event,
        TrainingCompleted: _completed,
    }


SpotModel = ZoneModel[SpotState, None]


def empty_model(_opened: Mapping[str, Any]) -> SpotModel:
    """Return the model of a zone without jobs."""
    return ZoneModel(SpotState(), None)
