"""Supply of a spot zone: a market, a base, and the training speed of an instance."""

from dataclasses import dataclass
from pathlib import Path

from auctune.device_profile import Profile
from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.engine.spot.job_config import (
    SpotJobSpec,
    SpotStrategy,
    max_deadline,
    overhead_fields,
)
from auctune.engine.spot.traces import LoopedTrace, read_looped_trace
from auctune.service.config.spot import SpotConfig
from auctune.service.jobs.device_limits import check_adapter, check_batch, check_step
from auctune.service.jobs.terms import JobValue
from auctune.service.jobs.training import Training
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.metered import Estimate
from auctune.service.zones.spot.decision import estimate_of, first_slot
from auctune.service.zones.spot.job import Pace
from auctune.spot.job import DEFAULT_VALUE, InstanceStart, Overhead


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
        n_min, n_max, table, overhead: of every job; see `SpotJobSpec`.
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
    n_min: int
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
            n_min=self.n_min,
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
