"""Replay of a spot zone's log.

A verification computes prices from the market, decisions from what the zone had seen of it, and
charges from the instances that a job held. The instances themselves depend on how fast the job
trained: they are recorded, and its process checks its policy's answers on each restart. Estimates
that an earlier release made stand.

A comparison plays the jobs again under another policy. A real job did as much work in a slot as
its process did; a played job does what its terms say. At its cap it ends: the first slot that
would cost more than is left is not paid, and its result is worth nothing to the owner.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from pydantic_core import to_jsonable_python

from auctune.domain import InputError, Money, round_money
from auctune.domain.money import ZERO
from auctune.engine.spot.job_config import SpotJobSpec, SpotStrategy, read_policy
from auctune.engine.spot.state import read_observation, to_record
from auctune.engine.spot.traces import LoopedTrace, MarketTrace
from auctune.engine.unix_time import SlotClock
from auctune.registry.policies import SPOT_POLICIES
from auctune.replay.compare import LogRange, Progress, ReplayInput, ZoneReplay
from auctune.replay.verify import Body, LogVerifier, Rule, noop
from auctune.service.config.spot import SpotConfig
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.core.events import adapter
from auctune.service.zones.core.job import Estimate, reserved_amount
from auctune.service.zones.spot.state import (
    CAP_REACHED,
    ESTIMATOR,
    EstimateInputs,
    SpotEventType,
    SpotJobState,
    SpotState,
    charge_amount,
    decide,
    empty_model,
    estimate_of,
    first_slot,
    value_at,
)
from auctune.service.zones.spot.zone import load_market
from auctune.sim.comparison import Entry
from auctune.sim.spot.files import SpotRecord
from auctune.sim.spot.forecasts import parse_forecaster
from auctune.sim.spot.trials import widest_horizon
from auctune.spot import Policy, SpotJob, SpotMarket, play
from auctune.spot.forecasts import ForecastTable, stack_forecasts
from auctune.spot.policy import IDLE, PolicyRun, SpotObservation, SpotOutcome
from auctune.spot.value import value_of_finish

# Costs are sums of many floats.
_SLACK = 1e-9


class SpotVerifier(LogVerifier[SpotState, None]):
    """Verifies a spot zone's log."""

    def __init__(self, market: LoopedTrace, clock: SlotClock) -> None:
        super().__init__(empty_model({}))
        self._market, self._clock = market, clock

    def decided_body(self, event: ZoneEvent) -> Body | None:
        body = event.body
        if body["estimate_inputs"] is None:
            # The job of a run without a service.
            return body
        inputs = adapter(EstimateInputs).validate_python(body["estimate_inputs"])
        cap = Money(body["request"]["max_cost"])
        left = None if body["budget_remaining"] is None else Money(body["budget_remaining"])
        # Another release's rule of estimates is not here: its estimate stands.
        estimate = (
            self._estimate(body, inputs)
            if inputs.estimator == ESTIMATOR
            else adapter(Estimate).validate_python(body["decision"]["estimate"])
        )
        return {
            **body,
            "decision": to_jsonable_python(
                decide(estimate, cap, left, len(self.state.jobs), body["jobs"])
            ),
            "held": str(reserved_amount(cap, left)),
            "first": first_slot(self._clock, self.state.slot, body["ready_at"]),
        }

    def _estimate(self, body: Mapping[str, Any], inputs: EstimateInputs) -> Estimate:
        terms = replace(
            adapter(SpotJobSpec).validate_python(body["terms"]),
            deadline=inputs.deadline,
            hard_factor=inputs.hard_factor,
        )
        return estimate_of(
            terms,
            inputs.first,
            inputs.slot,
            inputs.pace,
            SpotStrategy(**body["renting"]),
            self._market,
            self._clock,
            body["unit_price"],
            Money("Infinity") if inputs.max_cost is None else inputs.max_cost,
        )

    def _slot_began(self, event: ZoneEvent) -> Body | None:
        slot = event.body["slot"]
        if slot <= self.state.slot:
            return None
        price, available = self._market.quote(slot)
        return {**event.body, "price": price, "available": available}

    def _metered(self, event: ZoneEvent) -> Body | None:
        body, job = event.body, self.state.jobs.get(str(event.job))
        if job is None or job.meter.is_charged(body["slot"]):
            return None
        held, paid = (
            self._at_deadline(body, job) if body["price"] is None else self._held(body, job)
        )
        return {
            **body,
            **held,
            "slot": job.meter.next_slot,
            "amount": str(
                charge_amount(
                    paid,
                    job.unit_price,
                    job.meter.remaining,
                    is_free=body["price"] is None and job.was_slowed,
                )
            ),
            "cost": str(round_money(paid * job.unit_cost)),
        }

    def _held(self, body: Body, job: SpotJobState) -> tuple[Body, float]:
        """Check that a slot's price is the market's, and that it had the spot instances held."""
        at = job.first + job.meter.next_slot
        trace = self._market.trace(at, 1)
        price = body["price"] if body["price"] in trace["price"] else trace["price"][0]
        spot = min(body["spot"], max(trace["available"]))
        spot_cost = spot * price
        paid = body["on_demand"] * self._market.market.on_demand_price + spot_cost
        return {"at": at, "share": 1.0, "price": price, "spot": spot}, paid

    def _at_deadline(self, body: Body, job: SpotJobState) -> tuple[Body, float]:
        """Work left at the deadline runs on all on-demand instances that the job can use."""
        on_demand_price = self._market.market.on_demand_price
        paid = on_demand_price * job.terms.n_max * body["share"]
        return {"on_demand": job.terms.n_max, "spot": 0}, paid

    def _trained(self, event: ZoneEvent) -> Body | None:
        job = self.state.jobs.get(str(event.job))
        is_new = job is not None and event.body["number"] >= job.next_trained
        return event.body if is_new else None

    def _ended(self, event: ZoneEvent) -> Body | None:
        job = self.state.jobs.get(str(event.job))
        if job is None:
            return None
        done = self._clock.slot_start(job.first) + event.body["finish"] * self._clock.slot_seconds
        worth = value_at(job.worth, done)
        return {**event.body, "worth": None if worth is None else str(worth)}

    rules: ClassVar[Mapping[str, Rule]] = {
        EventType.SLOT_STARTED: _slot_began,
        EventType.METERED: _metered,
        EventType.TRAINED: _trained,
        SpotEventType.TRAINING_COMPLETED: _ended,
    }


class RunVerifier(SpotVerifier):
    """Verifies the log of a run: its policy's answers, and payments at prices of the market."""

    count_names = ("decisions", "allocations")

    def __init__(self, market: LoopedTrace, clock: SlotClock) -> None:
        super().__init__(market, clock)
        self._policy: PolicyRun | None = None
        # Of the policy to the newest observation, which the event with this number has.
        self._answer, self._answered = IDLE, 0

    def counts_of(self, event: ZoneEvent) -> Iterator[str]:
        if event.type == EventType.DECIDED:
            yield "decisions"
        elif _observation(event) is not None:
            yield "allocations"

    def apply(self, event: ZoneEvent) -> None:
        observation = _observation(event)
        if observation is not None and event.seq > self._answered:
            # Before the verified range.
            self._observe(event, observation)
        super().apply(event)

    def _observe(self, event: ZoneEvent, observation: SpotObservation) -> None:
        if self._policy is None:
            job = self.state.jobs[str(event.job)]
            self._policy = read_policy(job.policy).start(job.terms.job())
        self._answer, self._answered = self._policy.allocate(observation), event.seq

    def _run_event(self, event: ZoneEvent) -> Body | None:
        if not self.is_open(event):
            return None
        run_event, observation = event.body["event"], _observation(event)
        if observation is None:
            return event.body
        self._observe(event, observation)
        if run_event["type"] == "slot_skipped":
            # Nothing is held in a slot in which the run was not under way.
            return event.body
        trace = self._market.trace(observation.slot, 1)
        if observation.price not in trace["price"]:
            observation = replace(observation, price=trace["price"][0])
        paid = (
            self._answer.on_demand * self._market.market.on_demand_price
            + self._answer.spot * observation.price
        )
        expected = {
            "observation": to_record(observation),
            "allocation": to_record(self._answer),
            "paid": paid,
        }
        return {"event": {**run_event, **expected}}

    rules: ClassVar[Mapping[str, Rule]] = {
        **SpotVerifier.rules,
        SpotEventType.RUN_EVENT: _run_event,
    }


def _observation(event: ZoneEvent) -> SpotObservation | None:
    """Return what a policy observed, or None if an event is not that of a slot of a run."""
    if event.type != SpotEventType.RUN_EVENT or "observation" not in event.body["event"]:
        return None
    return read_observation(event.body["event"]["observation"])


# Comparison with other policies.


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Cost and finish of one job, in units of the on-demand price and in its slots.

    A job that its cap ended has no finish.
    """

    cost: float
    finish: float | None


@dataclass(frozen=True, slots=True, eq=False)
class PastJob:
    """A job that has ended.

    Attributes:
        history: the market up to the job's first slot, without it.
        market: in the job's slots, as each began.
        forecast: the forecaster that it used, NAME[:KEY=VALUE...].
    """

    job: SpotJob
    history: SpotMarket
    market: SpotMarket
    forecast: str
    cap: float
    unit_price: float
    recorded: JobOutcome

    def value(self, outcome: JobOutcome) -> float:
        if outcome.finish is None:
            return 0.0
        return value_of_finish(self.job, outcome.finish) * self.unit_price

    def is_late(self, outcome: JobOutcome) -> bool:
        """Return whether the job was done after its deadline, or never."""
        return outcome.finish is None or outcome.finish > self.job.deadline + _SLACK

    def outcome_under(self, policy: Policy) -> JobOutcome:
        played = play(policy, self.job, self.market, self._forecasts(policy))
        return _capped(played, self.market, self.cap)

    def _forecasts(self, policy: Policy) -> ForecastTable | None:
        horizon = widest_horizon([policy], self.job)
        if not horizon:
            return None
        forecaster = parse_forecaster(self.forecast, "forecast").forecaster(self.history, 0)
        seen = SpotMarket(
            np.concatenate([self.history.price, self.market.price]),
            np.concatenate([self.history.available, self.market.available]),
            self.market.on_demand_price,
            self.market.slot_seconds,
        )
        first = self.history.num_slots
        slots = range(first, first + self.job.deadline)
        return stack_forecasts([forecaster.forecast(seen.until(slot), horizon) for slot in slots])


def _capped(played: SpotOutcome, market: SpotMarket, cap: float) -> JobOutcome:
    """End an outcome where the next payment would exceed the cap."""
    paid = [
        held.on_demand * market.on_demand_price + held.spot * float(market.price[slot])
        for slot, held in enumerate(played.allocations)
    ]
    so_far = np.concatenate([[0.0], np.cumsum(paid)])
    for before, after in pairwise(so_far):
        if after > cap + _SLACK:
            return JobOutcome(float(before), None)
    if played.cost > cap + _SLACK:
        # Completion on demand is paid by the fraction, up to the cap.
        return JobOutcome(cap, None)
    return JobOutcome(played.cost, played.finish)


@dataclass(frozen=True, slots=True)
class RentalOutcome:
    """Outcome of the jobs of a range; money.

    Late jobs were done after their deadlines, or never; capped ones were ended by their caps.
    """

    num_jobs: int
    num_late: int
    num_capped: int
    cost: float
    value: float
    utility: float


def rental_outcome(outcomes: Iterable[tuple[PastJob, JobOutcome]]) -> RentalOutcome:
    """Return the outcome of jobs together."""
    jobs = list(outcomes)
    cost = sum(outcome.cost * job.unit_price for job, outcome in jobs)
    value = sum(job.value(outcome) for job, outcome in jobs)
    return RentalOutcome(
        num_jobs=len(jobs),
        num_late=sum(job.is_late(outcome) for job, outcome in jobs),
        num_capped=sum(outcome.finish is None for _, outcome in jobs),
        cost=cost,
        value=value,
        utility=value - cost,
    )


@dataclass
class RecordedJob:
    """An admitted job in the log.

    `finish` is when its last row was trained, in its slots; a disturbed job was interrupted by its
    owner or the service.
    """

    admission: Body
    charged: Money = ZERO
    finish: float | None = None
    is_capped: bool = False
    is_disturbed: bool = False

    @property
    def is_comparable(self) -> bool:
        """Return whether the job has ended, and its policy alone decided how."""
        return not self.is_disturbed and (self.is_capped or self.finish is not None)

    def apply(self, event: ZoneEvent) -> None:
        if event.type == EventType.METERED:
            self.charged += Money(event.body["amount"])
            self.is_disturbed |= event.body["missed"]
        elif event.type == SpotEventType.TRAINING_COMPLETED:
            self.finish = event.body["finish"]
        elif event.type == EventType.FAILED and event.body["code"] == CAP_REACHED:
            self.is_capped = True
        elif event.type in (EventType.PAUSED, EventType.CANCELLED, EventType.FAILED):
            self.is_disturbed = True

    def past_job(self, market: LoopedTrace) -> PastJob:
        """Return the job as another policy can play it."""
        body = self.admission
        terms = adapter(SpotJobSpec).validate_python(body["terms"])
        first, unit_price = body["first"], body["unit_price"]
        return PastJob(
            job=terms.job(),
            history=market.history(first - 1),
            market=market.slot_starts(first, terms.deadline),
            forecast=body["renting"]["forecast"],
            cap=float(Money(body["held"])) / unit_price,
            unit_price=unit_price,
            recorded=JobOutcome(
                float(self.charged) / unit_price, None if self.is_capped else self.finish
            ),
        )


def recorded_jobs(events: Iterable[ZoneEvent], first_slot: int) -> list[RecordedJob]:
    """Return the jobs that were admitted in a slot or later."""
    jobs: dict[str | None, RecordedJob] = {}
    for event in events:
        if event.type == EventType.DECIDED:
            if event.body["decision"]["admitted"] and event.slot >= first_slot:
                jobs[event.job] = RecordedJob(event.body)
        elif event.job in jobs:
            jobs[event.job].apply(event)
    return list(jobs.values())


class SpotReplay(ZoneReplay[RentalOutcome]):
    """Replay of a spot zone's log."""

    basis = "recorded observations of its market"
    rows = (
        ("jobs", "num_jobs", ","),
        ("late", "num_late", ","),
        ("ended by the cap", "num_capped", ","),
        ("cost", "cost", ",.4f"),
        ("value", "value", ",.4f"),
        ("utility", "utility", ",.4f"),
    )
    skipped = "cancelled, paused, missed a slot, or not ended"

    def __init__(self, source: ReplayInput) -> None:
        super().__init__(source)
        # Of a run without a service the log has the market.
        self._is_run = "trace" in source.log.opened
        self._market = (
            _market_of_run(source.log) if self._is_run else _market(source.log, source.config)
        )

    @property
    def mechanism(self) -> str:
        return ", ".join(sorted({job.admission["renting"]["policy"] for job in self._comparable}))

    @property
    def num_skipped(self) -> int:
        return len(self._recorded) - len(self._comparable)

    def check(self, entry: Entry) -> None:
        _policy(entry)
        if self._is_run:
            found = "cannot be compared on the log of a run"
            raise InputError("--mechanism", found, "auctune spot simulate, which plays its market")

    def verifier(self) -> SpotVerifier:
        verifier = RunVerifier if self._is_run else SpotVerifier
        return verifier(self._market, self.log.clock)

    def recorded_outcome(self, progress: Progress) -> RentalOutcome:
        return rental_outcome((job, job.recorded) for job in self._jobs)

    def outcome_under(self, entry: Entry, progress: Progress) -> RentalOutcome:
        policy = _policy(entry)
        tick = progress(entry.label, len(self._jobs)) or noop
        outcomes = []
        for job in self._jobs:
            outcomes.append((job, job.outcome_under(policy)))
            tick()
        return rental_outcome(outcomes)

    @cached_property
    def _recorded(self) -> list[RecordedJob]:
        return recorded_jobs(self.log.events(), self.log.first_slot)

    @cached_property
    def _comparable(self) -> list[RecordedJob]:
        return [job for job in self._recorded if job.is_comparable]

    @cached_property
    def _jobs(self) -> list[PastJob]:
        return [job.past_job(self._market) for job in self._comparable]


def _market_of_run(log: LogRange) -> LoopedTrace:
    """Return the market of a run, in its own slots."""
    trace, seconds = MarketTrace.read(log.opened["trace"]), log.clock.slot_seconds
    price, available = zip(*(trace.at(slot) for slot in range(trace.num_slots)), strict=True)
    market = SpotMarket(
        np.array(price), np.array(available), trace.on_demand_price, slot_seconds=seconds
    )
    record = SpotRecord(trace.times * seconds, trace.price, trace.available)
    return LoopedTrace(market, record, 0)


def _market(log: LogRange, config: object) -> LoopedTrace:
    if not isinstance(config, SpotConfig):
        expected = f"auctune.toml with zone {log.zone}, which names the files of its market"
        raise InputError("--config", "has no market", f"{expected}: the log has only their digest")
    market = load_market(config)
    if market.digest != log.opened["market"]:
        expected = "the market files and settings that the zone was created with"
        raise InputError(f"zone {log.zone}: market", "differs from the recorded one", expected)
    return market


def _policy(entry: Entry) -> Policy:
    return SPOT_POLICIES.build(entry.mechanism, entry.settings)
