"""Replay of a timeshare zone's log.

A verification computes estimates from what the zone had seen, and charges from seconds of the
pool. The shares themselves are the pool's own: it knows more than the zone, by measurement.

A comparison shares the pool again under another allocator, over the recorded losses. A job's curve
is known up to its last batch. Beyond it the mixture estimator forecasts when the target is reached:
the loss falls as a power law, l = a s^-b, through the last recorded loss and the target, and stays
where it is if the target is forecast to be out of reach. A job that its cap ended learns nothing
more that counts.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from pydantic_core import to_jsonable_python

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.engine.pool.events import ExitReason
from auctune.engine.unix_time import SlotClock
from auctune.registry.policies import TIMESHARE_ALLOCATORS
from auctune.replay.compare import Progress, ZoneReplay
from auctune.replay.verify import Body, LogVerifier, Rule
from auctune.service.jobs.training import Training
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.core.events import adapter
from auctune.service.zones.core.job import Estimate
from auctune.service.zones.timeshare.gateway import (
    ForecastData,
    ForecastRequest,
    PoolPricing,
    forecast,
    forecast_data,
)
from auctune.service.zones.timeshare.state import (
    Features,
    TimeshareEventType,
    TimeshareState,
    charge_amount,
    decide,
    empty_model,
    held_after_cancel,
)
from auctune.sim.comparison import Entry
from auctune.timeshare import Allocator, LearningThread, LossCurve, play
from auctune.timeshare.estimators import SingleThread
from auctune.timeshare.estimators.mixture import Mixture


class TimeshareVerifier(LogVerifier[TimeshareState, None]):
    """Verifies a timeshare zone's log.

    An estimate follows from an earlier state than its decision, so that the data for its forecast
    are kept from then on.
    """

    def __init__(self, price: Money, clock: SlotClock, decisions: Iterable[ZoneEvent]) -> None:
        super().__init__(empty_model({}))
        self._price, self._clock = price, clock
        # An event without inputs is reported when it is verified.
        with_inputs = (event for event in decisions if "estimate_inputs" in event.body)
        self._num_uses = Counter(map(_estimate_seq, with_inputs))
        self._kept: dict[int, ForecastData] = {}
        self._keep_forecast_data()

    def apply(self, event: ZoneEvent) -> None:
        super().apply(event)
        self._keep_forecast_data()

    def _keep_forecast_data(self) -> None:
        if self._num_uses[self.state.seq]:
            self._kept[self.state.seq] = forecast_data(self.state)

    def decided_body(self, event: ZoneEvent) -> Body | None:
        body = event.body
        cap = Money(body["request"]["max_cost"])
        left = None if body["budget_remaining"] is None else Money(body["budget_remaining"])
        estimate = self._estimate(event, cap)
        return {
            **body,
            "deadline_unit": self._clock.last_slot_by(body["request"]["deadline"]) + 1,
            "decision": to_jsonable_python(
                decide(estimate, cap, left, body["decision"]["target_loss"])
            ),
        }

    def _estimate(self, event: ZoneEvent, cap: Money) -> Estimate | None:
        """Estimate again, or return None if the zone was never at the recorded event."""
        seq, body = _estimate_seq(event), event.body
        data = self._kept.get(seq)
        self._num_uses[seq] -= 1
        if not self._num_uses[seq]:
            self._kept.pop(seq, None)
        if data is None:
            return None
        training = adapter(Training).validate_python(body["training"])
        size = DataSize.from_record(body["size"])
        request = ForecastRequest(
            owner=body["owner"],
            features=Features.of(training, size),
            target_loss=body["decision"]["target_loss"],
            cap=cap,
            first_unit=body["estimate_inputs"]["first_unit"],
            deadline_unit=body["deadline_unit"],
        )
        pricing = PoolPricing(self._price, self._clock.epoch, self._clock.slot_seconds)
        return forecast(request, pricing, data)

    def _unit(self, event: ZoneEvent) -> Body | None:
        return event.body if event.body["number"] > self.state.journal_offset else None

    def _joined(self, event: ZoneEvent) -> Body | None:
        return None if self.state.charged_job(str(event.job)) is None else self._unit(event)

    def _cancelled(self, event: ZoneEvent) -> Body | None:
        job = self.state.jobs.get(str(event.job))
        if job is None or job.departure is not None:
            return {} if self.is_open(event) else None
        held = held_after_cancel(self._price, self._clock.slot_seconds, job.meter.remaining)
        return {"held": str(held)}

    def _settled(self, event: ZoneEvent) -> Body | None:
        return {} if event.job in self.state.cancelled else None

    def _metered(self, event: ZoneEvent) -> Body | None:
        body, job = event.body, self.state.charged_job(str(event.job))
        if job is None or job.meter.is_charged(body["slot"]):
            return None
        seconds = body["charged_seconds"] if "charged_seconds" in body else body["seconds"]
        expected: Body = {
            "slot": job.meter.next_slot,
            "amount": str(charge_amount(seconds, self._price, job.meter.remaining)),
            "cost": "0",
        }
        if body["batches"]:
            if not self.state.units:
                return None
            unit = self.state.units[-1]
            expected |= {"unit": unit["unit"], "share": unit["shares"].get(job.id, 0.0)}
        return {**body, **expected}

    rules: ClassVar[Mapping[str, Rule]] = {
        TimeshareEventType.UNIT_TRAINED: _unit,
        EventType.METERED: _metered,
        TimeshareEventType.JOINED_POOL: _joined,
        EventType.CANCELLED: _cancelled,
        TimeshareEventType.SETTLED: _settled,
    }


def _estimate_seq(event: ZoneEvent) -> int:
    """Return the number of the newest event that the estimate of a decision took into account."""
    return int(event.body["estimate_inputs"]["seq"])


# Comparison with other allocators.

# Points of a curve beyond its record.
_NUM_FORECAST_POINTS = 8
# More than any job trains.
_MAX_BATCHES = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class PastJob:
    """A job of the pool as another allocator can train it.

    Attributes:
        learning: its arrival, deadline and target; in units of time.
        batches: [i] learned at the end of each unit, increasing.
        losses: [i] mean loss of each unit.
        rate: N, batches a unit with the whole pool.
        counts: whether its outcome is its own; other jobs only take their share of the pool.
    """

    learning: LearningThread
    batches: tuple[int, ...]
    losses: tuple[float, ...]
    rate: float
    counts: bool
    is_done: bool
    is_capped: bool

    def curve(self) -> LossCurve:
        """Return the recorded losses, and the forecast beyond them."""
        batches, losses = [float(one) for one in self.batches], list(self.losses)
        if not self.is_done and not self.is_capped:
            beyond = self._forecast()
            batches += [point for point, _ in beyond]
            losses += [loss for _, loss in beyond]
        return LossCurve(np.array(batches), np.array(losses))

    def _forecast(self) -> list[tuple[float, float]]:
        last, loss, target = self.batches[-1], self.losses[-1], self.learning.threshold
        run = SingleThread(Mixture())
        for batches, seen in zip(self.batches, self.losses, strict=True):
            run.observe(float(batches), seen)
        need = run.need(target).batches
        if math.isinf(need) or not 0.0 < need < _MAX_BATCHES or loss <= target:
            return []
        ends = np.unique(np.ceil(np.geomspace(last, last + need, _NUM_FORECAST_POINTS + 1)))[1:]
        slope = math.log(loss / target) / math.log(ends[-1] / last)
        falling = [max(target, loss * (end / last) ** -slope) for end in ends]
        # The last point is the target itself, whatever rounding makes of it.
        return list(zip(ends.tolist(), [*falling[:-1], target], strict=True))


@dataclass(frozen=True, slots=True)
class PoolOutcome:
    """Outcome of the jobs of a pool that count.

    Attributes:
        num_done: that reached their targets in time.
        num_forecast: of those, the ones that did so by forecast losses.
        units: units of time of the whole pool that the jobs took.
    """

    num_jobs: int
    num_done: int
    num_forecast: int
    units: float
    pool_seconds: float


def recorded_outcome(jobs: Sequence[PastJob], unit_seconds: float) -> PoolOutcome:
    """Return the outcome as recorded."""
    counted = [job for job in jobs if job.counts]
    units = sum(job.batches[-1] / job.rate for job in counted)
    return PoolOutcome(
        num_jobs=len(counted),
        num_done=sum(job.is_done for job in counted),
        num_forecast=0,
        units=units,
        pool_seconds=units * unit_seconds,
    )


def outcome_under(
    jobs: Sequence[PastJob], allocator: Allocator, unit_seconds: float
) -> PoolOutcome:
    """Return the outcome of at least one job under another allocator."""
    outcome = play(
        allocator,
        [job.learning for job in jobs],
        [job.curve() for job in jobs],
        [job.rate for job in jobs],
    )
    counts = np.array([job.counts for job in jobs])
    beyond = outcome.samples > np.array([job.batches[-1] for job in jobs])
    units = float((outcome.samples / np.array([job.rate for job in jobs]))[counts].sum())
    return PoolOutcome(
        num_jobs=int(counts.sum()),
        num_done=int((outcome.done & counts).sum()),
        num_forecast=int((outcome.done & counts & beyond).sum()),
        units=units,
        pool_seconds=units * unit_seconds,
    )


@dataclass
class RecordedJob:
    """An admitted job in the log.

    Attributes:
        deadline: unit by whose beginning it must be done.
        start: first unit in which it can learn, or `None` if it has not joined the pool.
        rate: batches a unit with the whole pool, as first measured.
        batches: learned at the end of each of its units.
        losses: of each unit; values that are not numbers are left out.
        end: unit in which it left or its owner ended it, or `None` if it goes on.
        how: reason for which it left the pool, or `None` if it has not.
    """

    id: str
    target_loss: float
    deadline: int
    start: int | None = None
    rate: float = 0.0
    batches: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    num_batches: int = 0
    end: int | None = None
    how: str | None = None
    is_paused: bool = False

    @property
    def is_comparable(self) -> bool:
        """Return whether the job has ended, and its shares alone decided how."""
        return (
            self.how in (ExitReason.TARGET_REACHED, ExitReason.DEADLINE_MISSED, ExitReason.STOPPED)
            and not self.is_paused
        )

    def apply(self, event: ZoneEvent) -> None:
        body = event.body
        if event.type == TimeshareEventType.JOINED_POOL:
            self.start, self.rate = body["unit"], body["rate"]
        elif event.type == EventType.METERED:
            self.num_batches += body["batches"]
            self.seconds += body["seconds"]
            if body["loss"] is not None:
                self.batches.append(self.num_batches)
                self.losses.append(body["loss"])
        elif event.type == TimeshareEventType.LEFT_POOL:
            self.how, self.end = body["how"], event.slot
        elif event.type == EventType.PAUSED:
            self.is_paused = True
        elif event.type in (EventType.CANCELLED, EventType.FAILED) and self.end is None:
            self.end = event.slot


def recorded_jobs(events: Iterable[ZoneEvent], first_slot: int) -> list[RecordedJob]:
    """Return the jobs that were admitted in a slot or later."""
    jobs: dict[str, RecordedJob] = {}
    for event in events:
        name, body = str(event.job), event.body
        if event.type == EventType.DECIDED:
            if body["decision"]["admitted"] and event.slot >= first_slot:
                target = body["decision"]["target_loss"]
                jobs[name] = RecordedJob(name, target, body["deadline_unit"])
        elif name in jobs:
            jobs[name].apply(event)
    return list(jobs.values())


def past_jobs(
    recorded: Sequence[RecordedJob], unit_seconds: float | None, newest: int
) -> list[PastJob]:
    """Return jobs as another allocator can train them; unit 0 is the first of any.

    Jobs of the log that learned nothing are left out.

    Args:
        recorded: jobs of the log.
        unit_seconds: length of a unit; None: units were counted, and rates were given.
        newest: last unit in the log.
    """
    begin = min((one.start for one in recorded if one.start is not None), default=0)
    jobs = []
    for one in recorded:
        if one.start is None or not one.batches:
            continue
        # Jobs that do not count take their recorded share of the pool, and leave.
        end = newest if one.end is None else one.end
        deadline = one.deadline if one.is_comparable else min(one.deadline, end + 1)
        if deadline > one.start:
            times = one.start - begin, deadline - begin
            jobs.append(
                PastJob(
                    learning=LearningThread(one.id, *times, one.target_loss),
                    batches=tuple(one.batches),
                    losses=tuple(one.losses),
                    rate=_rate(one, unit_seconds),
                    counts=one.is_comparable,
                    is_done=one.how == ExitReason.TARGET_REACHED,
                    is_capped=one.how == ExitReason.STOPPED,
                )
            )
    return jobs


def _rate(job: RecordedJob, unit_seconds: float | None) -> float:
    if unit_seconds is None or not job.seconds:
        return job.rate
    return job.num_batches / job.seconds * unit_seconds


class TimeshareReplay(ZoneReplay[PoolOutcome]):
    """Replay of a timeshare zone's log."""

    basis = "recorded measurements of its jobs"
    rows = (
        ("jobs", "num_jobs", ","),
        ("done in time", "num_done", ","),
        ("of which by forecast", "num_forecast", ","),
        ("seconds of the pool", "pool_seconds", ",.1f"),
    )
    skipped = "cancelled, paused, never in the pool, or not ended"

    @property
    def mechanism(self) -> str:
        return str(self.log.opened["allocator"])

    @property
    def num_skipped(self) -> int:
        return len(self._recorded) - sum(job.counts for job in self._jobs)

    def check(self, entry: Entry) -> None:
        _allocator(entry)

    def verifier(self) -> TimeshareVerifier:
        log = self.log
        decisions = (
            event
            for event in log.events()
            if event.type == EventType.DECIDED and log.contains(event)
        )
        return TimeshareVerifier(Money(log.opened["price_per_second"]), log.clock, decisions)

    def recorded_outcome(self, progress: Progress) -> PoolOutcome:
        return recorded_outcome(self._jobs, self.log.clock.slot_seconds)

    def outcome_under(self, entry: Entry, progress: Progress) -> PoolOutcome:
        progress(entry.label, None)
        if not self._jobs:
            return self.recorded_outcome(progress)
        return outcome_under(self._jobs, _allocator(entry), self.log.clock.slot_seconds)

    @cached_property
    def _recorded(self) -> list[RecordedJob]:
        return recorded_jobs(self.log.events(), self.log.first_slot)

    @cached_property
    def _jobs(self) -> list[PastJob]:
        # Only the log of a run has the key.
        seconds = self.log.opened.get("unit_seconds", self.log.clock.slot_seconds)
        return past_jobs(self._recorded, seconds, self.log.newest_slot)


def _allocator(entry: Entry) -> Allocator:
    return TIMESHARE_ALLOCATORS.build(entry.mechanism, entry.settings)
