"""Commands of a spot zone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from auctune.domain import InputError, Money, round_money
from auctune.domain.data_size import DataSize
from auctune.engine.spot.job_config import SpotJobSpec, SpotStrategy, max_deadline, overhead_fields
from auctune.engine.spot.state import EventRecord, SpotRunState
from auctune.engine.spot.traces import LoopedTrace, read_looped_trace
from auctune.engine.unix_time import SlotClock, to_rfc3339
from auctune.files.device_profile import Profile
from auctune.service.config.spot import SpotConfig
from auctune.service.jobs.terms import JobValue
from auctune.service.jobs.training import Training, ZoneBid, check_adapter, check_batch, check_step
from auctune.service.zones.core.events import JobNoted
from auctune.service.zones.core.job import (
    SLOWER_THAN_SOLD,
    Estimate,
    Phase,
    SlotResult,
    reserved_amount,
)
from auctune.service.zones.core.zone import EventWriter, SlottedZone
from auctune.service.zones.spot.state import (
    Pace,
    ReachedValue,
    RunEventRecorded,
    SpotBid,
    SpotDecided,
    SpotJobState,
    SpotMetered,
    SpotModel,
    SpotSlotStarted,
    SpotTrained,
    StrategyLabels,
    TrainingCompleted,
    charge_amount,
    decide,
    estimate_of,
    first_slot,
    learned_pace,
    value_at,
)
from auctune.spot.job import DEFAULT_VALUE, InstanceStart, Overhead

MIN_INSTANCES = 1
"""Least number of instances of a job while it runs: each holds the whole base."""


def load_market(entry: SpotConfig) -> LoopedTrace:
    """Read the market that a zone replays; errors name the file or the key."""
    return read_looped_trace(
        Path(entry.market),
        None if entry.prices is None else Path(entry.prices),
        entry.fixed_price,
        on_demand_price=entry.on_demand_price,
        slot_seconds=entry.replayed_seconds,
        start=entry.start,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSupply:
    """Supply of a spot zone.

    Attributes:
        profile: device profile of an instance.
        spare: share of an instance's speed that estimates leave out.
        start_seconds: assumed start time of a job's process until one has been observed.
        renting: policy and forecast by which jobs rent.
        num_slots: horizon of deadlines, in slots.
        n_max, table, overhead: of every job; see `SpotJobSpec`.
        micro_batch: rows of a micro-batch.
        unit_cost, unit_price: cost of an on-demand instance for a slot to the service, and its
            price to owners.
    """

    base: str
    profile: Profile
    spare: float
    start_seconds: float
    market: LoopedTrace
    renting: SpotStrategy
    clock: SlotClock
    num_slots: int
    max_jobs: int
    n_max: int
    table: tuple[float, ...] | None
    overhead: Overhead | InstanceStart
    micro_batch: int
    unit_cost: float
    unit_price: float

    def slot_range(self, deadline: float, slot: int, ready_at: float) -> range:
        """Return the slots of a job that is decided on in `slot`; empty if no whole slot is left.

        They begin when the job's process can train, at `ready_at`, and end at its deadline, at the
        horizon of the zone, or where forecasts from the recorded market end.
        """
        first = first_slot(self.clock, slot, ready_at)
        known = max_deadline(self.market.history(slot)) - (first - slot)
        most = max(0, min(self.num_slots, known))
        return range(first, min(self.clock.last_slot_by(deadline) + 1, first + most))

    def terms(
        self, training: Training, size: DataSize, worth: JobValue, slots: range, speed_ratio: float
    ) -> SpotJobSpec:
        """Return a job as a policy sees it; a unit of work is a slot of one instance.

        `speed_ratio` is the observed speed of instances over that of their profile.
        """
        # Rows of the validation data count by the time that they take.
        rows_in_time = size.rows + size.validation_rows * size.validation_row_cost
        rows = rows_in_time * training.epochs
        # Each micro-batch takes a pass, and its gradient is copied and added up like a step.
        batch = self.profile.batch(training, size, min(self.micro_batch, training.batch_size))
        seconds = self.clock.slot_seconds
        speed = self.profile.throughput(seconds, size.mean_tokens, batch, 1.0)
        speed /= self.profile.token_cost(batch)
        workload = max(rows / (speed * (1.0 - self.spare) * speed_ratio), 1e-6)
        length = len(slots) * seconds
        value = DEFAULT_VALUE * workload
        if worth.amount is not None:
            value = float(worth.amount) / self.unit_price
        return SpotJobSpec(
            workload=workload,
            deadline=len(slots),
            hard_factor=1.0 + max(0.0, worth.zero_at - worth.deadline) / length,
            value=value,
            n_min=MIN_INSTANCES,
            n_max=self.n_max,
            table=self.table,
            **overhead_fields(self.overhead),
        )

    def check(self, training: Training, size: DataSize) -> None:
        """Check that an instance can hold the job, and train a step of it in a slot."""
        check_batch(training, size)
        room_gb = self.profile.memory_gb - self.profile.base_memory_gb
        check_adapter(training, self.profile, room_gb)
        check_step(training, size, self.profile, self.clock.slot_seconds)

    def estimate(
        self,
        terms: SpotJobSpec,
        first: int,
        slot: int,
        pace: Pace,
        max_cost: Money | None = None,
    ) -> Estimate:
        """Estimate the cost and finish of a job; takes some time. See `estimate_of`."""
        return estimate_of(
            terms,
            first,
            slot,
            pace,
            self.renting,
            self.market,
            self.clock,
            self.unit_price,
            max_cost,
        )


B = TypeVar("B", bound=ZoneBid)


class RentalZone(SlottedZone[SpotJobState, B]):
    """Zone whose jobs rent instances: their coordinators' events are recorded in it."""

    def record_run_event(self, job: SpotJobState, event: EventRecord) -> None:
        """Record an event of a job's run (`auctune.engine.spot.state`), and what it means."""
        self.record(RunEventRecorded(event=event), job.id)
        if event["type"] == "ended" and job.phase is not Phase.TRAINED:
            self._complete(job, event)

    def _complete(self, job: SpotJobState, event: EventRecord) -> None:
        if event["state"] != "done":
            # The training diverged: that is not the market's failure.
            self.fail(job.id, "training_diverged", event["note"], None, refund=False)
            return
        done = self.clock.slot_start(job.first) + event["finish"] * self.clock.slot_seconds
        completed = TrainingCompleted(
            state=event["state"],
            note=event["note"],
            finish=event["finish"],
            worth=value_at(job.worth, done),
        )
        self.record(completed, job.id)


class SpotZone(RentalZone[SpotBid]):
    """One zone, at its newest slot; its jobs are charged by the slot."""

    def __init__(
        self, name: str, rental: SpotSupply, model: SpotModel, writer: EventWriter
    ) -> None:
        super().__init__(name, rental.clock, model, writer)
        self.rental = rental
        self.state = model.state

    @property
    def has_room(self) -> bool:
        """Return whether it can run one more job."""
        return len(self.state.jobs) < self.rental.max_jobs

    @property
    def pace(self) -> Pace:
        """Start time and speeds that its next job is planned with."""
        return learned_pace(self.state.starts, self.state.speeds, self.rental.start_seconds)

    def begin_slot(self, slot: int) -> None:
        # Instances are chosen by the market as the slot begins.
        price, available = self.rental.market.quote(slot)
        self.record(SpotSlotStarted(slot=slot, price=price, available=available))

    def record_run_event(
        self, job: SpotJobState, event: EventRecord, slot: int | None = None
    ) -> None:
        """Record an event of a job's run, and what it means for the job and its owner.

        `slot` is the job's slot, or the interval after its deadline, that it is about: by default
        that which is under way, or begins.
        """
        if slot is None:
            slot = job.meter.next_slot - (event["type"] == "slot_done")
        super().record_run_event(job, event)
        match event["type"]:
            case "slot" | "slot_skipped":
                self._charge_slot(job, event)
            case "overtime":
                self._charge_overtime(job, event, slot)
                self._record_training(job, event, slot)
            case "slot_done":
                self._record_training(job, event, slot)
            case "overtime_started":
                self.note(job.id, "past its deadline: the rest runs on demand")

    def import_run(self, job: SpotJobState, events: Sequence[EventRecord]) -> None:
        """Record the events of a run whose log was in its folder, up to version 12 of the log.

        The newest of them may not be charged yet.
        """
        run, slot = SpotRunState(), -1
        for event in events:
            run.apply(event)
            slot += event["type"] in ("slot", "slot_skipped", "overtime")
            if event["type"] == "slot_done":
                last = run.slots[-1]
                event = {"paid": last.paid, "preempted": last.preempted, **event}
            self.record_run_event(job, event, slot)

    def _charge_slot(self, job: SpotJobState, event: EventRecord) -> None:
        observation, is_missed = event["observation"], event["type"] == "slot_skipped"
        held = {"on_demand": 0, "spot": 0} if is_missed else event["allocation"]
        slot = observation["slot"]
        if job.meter.is_charged(slot):
            return
        if is_missed and not job.was_paused:
            self._note_slower(job)
        paid = event.get("paid", 0.0)
        metered = SpotMetered(
            slot=slot,
            amount=charge_amount(paid, job.unit_price, job.meter.remaining),
            cost=round_money(paid * job.unit_cost),
            at=job.first + slot,
            share=1.0,
            price=observation["price"],
            missed=is_missed,
            preempted=job.lost_in_newest_slot(observation["last"]["spot"]),
            **held,
        )
        self.record(metered, job.id)

    def _charge_overtime(self, job: SpotJobState, event: EventRecord, number: int) -> None:
        if job.meter.is_charged(number):
            return
        share = event["time"] - event["since"]
        paid = job.terms.n_max * share
        amount = charge_amount(paid, job.unit_price, job.meter.remaining, is_free=job.was_slowed)
        metered = SpotMetered(
            slot=number,
            amount=amount,
            cost=round_money(paid * job.unit_cost),
            at=job.first + int(event["since"]),
            share=share,
            price=None,
            on_demand=job.terms.n_max,
            spot=0,
            missed=False,
        )
        self.record(metered, job.id)

    def _note_slower(self, job: SpotJobState) -> None:
        if not job.was_slowed:
            self.record(JobNoted(text=SLOWER_THAN_SOLD), job.id)

    def _record_training(self, job: SpotJobState, event: EventRecord, number: int) -> None:
        if number < job.next_trained:
            return
        # Logs of runs up to version 12 have less.
        rows, trained = event.get("rows", job.progress.rows), event.get("trained", {})
        refund = None
        if (
            event["type"] == "slot_done"
            and number == job.meter.next_slot - 1
            and job.is_slower_than_sold(rows, event["preempted"])
        ):
            refund = charge_amount(event["paid"], job.unit_price, job.meter.charged)
            self._note_slower(job)
        if rows == job.progress.rows and refund is None:
            return
        result = SlotResult(
            rows=rows,
            total_rows=job.total_rows,
            tokens=trained.get("tokens", job.progress.tokens),
            steps=trained.get("steps", job.progress.steps),
            state="suspended",
            losses=tuple(map(tuple, trained.get("losses", ()))),
            validation=tuple(map(tuple, trained.get("validation", ()))),
        )
        recorded = SpotTrained(
            node=self.name,
            slot=self.state.slot,
            seconds=self.clock.slot_seconds,
            number=number,
            result=result,
            refund=refund,
        )
        self.record(recorded, job.id)

    def _decide(self, bid: SpotBid) -> SpotDecided:
        rental, pace, worth = self.rental, bid.estimate_inputs.pace, bid.worth
        ready_at = self.clock.now() + pace.start_seconds
        slots = rental.slot_range(worth.deadline, self.state.slot, ready_at)
        if not slots:
            raise no_slot(self.clock, slots.start)
        left, num_open = bid.remaining_budget(), len(self.state.jobs)
        return SpotDecided(
            owner=bid.owner,
            request=bid.request,
            training=bid.training,
            idempotency_key=bid.idempotency_key,
            size=bid.size,
            decision=decide(bid.estimate, bid.cap, left, num_open, rental.max_jobs),
            budget_remaining=left,
            jobs=rental.max_jobs,
            estimate_inputs=bid.estimate_inputs,
            held=reserved_amount(bid.cap, left),
            first=slots.start,
            ready_at=ready_at,
            terms=rental.terms(bid.training, bid.size, worth, slots, pace.speed),
            renting=StrategyLabels(rental.renting.policy, rental.renting.forecast),
            unit_cost=rental.unit_cost,
            unit_price=rental.unit_price,
            worth=ReachedValue(worth.amount, worth.deadline, worth.zero_at),
        )


def no_slot(clock: SlotClock, first: int) -> InputError:
    """Return the error for a deadline before the end of the first slot that a job can use."""
    end = to_rfc3339(clock.slot_end(first))
    expected = f"{end}, when the first slot ends that the job can use, or later"
    return InputError("market.deadline", "leaves no whole slot", expected)
