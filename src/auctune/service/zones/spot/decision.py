"""Bids and decisions of a spot zone, as pure functions: the service and replays call the same.

A job is admitted if its cost is within the owner's cap and budget with a probability of 0.9. With
the expected cost, every other job would reach a cap just above it and be charged for nothing; with
the worst case, hardly any job would be admitted. At 0.9 owners can compare the cost with the prices
of other zones.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from auctune.domain import Money, Reason, round_money
from auctune.domain.data_size import DataSize
from auctune.domain.money import ZERO
from auctune.engine.spot.job_config import SpotJobSpec, SpotStrategy, estimate
from auctune.engine.spot.traces import LoopedTrace
from auctune.service.jobs.terms import JobValue
from auctune.service.jobs.training import ZoneBid
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.metered import Estimate
from auctune.service.zones.spot.job import Pace

OVER_CAP = "over_cap"
"""Why a job was rejected, besides `Reason`: its cost may exceed its cap."""


@dataclass(frozen=True, slots=True)
class EstimateInputs:
    """Inputs of an estimate; slots may have begun since.

    Attributes:
        first: first slot of the job.
        deadline, hard_factor: see `SpotJobSpec`.
        start_seconds, speeds: see `Pace`, by which the job is planned too.
        max_cost: limit of the expected cost, see `estimate_of`; `None`: there was none, as in logs
            of earlier releases.
    """

    slot: int
    first: int
    deadline: int
    hard_factor: float
    start_seconds: float
    speeds: tuple[float, ...]
    max_cost: Money | None = None

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


def decision_record(
    estimate: Estimate, cap: Money, left: Money | None, num_open: int, max_jobs: int
) -> dict[str, Any]:
    """Decide on a job, and return the `decision` of its event.

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
    return {
        "admitted": reason is None,
        "reason": reason,
        "max_cost": str(cap),
        "min_max_cost": str(need) if reason == OVER_CAP else None,
        "estimate": to_jsonable_python(estimate),
    }


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


def value_at(worth: Mapping[str, Any], time: float) -> Money | None:
    """Return the value of a job that is done at a time, or None if its owner gave no value."""
    if worth["amount"] is None:
        return None
    amount, deadline, zero_at = Money(worth["amount"]), worth["deadline"], worth["zero_at"]
    if time <= deadline:
        return amount
    if time >= zero_at:
        return amount * 0
    share = (zero_at - time) / (zero_at - deadline)
    return (amount * Money(share)).quantize(amount)
