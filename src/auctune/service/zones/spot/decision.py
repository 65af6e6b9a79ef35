"""Decisions of a spot zone, and nothing else: used live and in replays.

A job is admitted if its cost is within the owner's cap, and budget, with a probability of 0.9. By
expectation one job in two would reach a cap just above it, and be paid for nothing; by the worst
case hardly any would be admitted; at 0.9 owners compare it with the other zones' prices as they
stand.
"""

from collections.abc import Mapping
from typing import Any

from auctune.domain import Money, round_money
from auctune.run.rental.estimate import Renting, estimate
from auctune.run.rental.market import ReplayedRecord
from auctune.run.rental.order import JobTerms
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.metered import Estimate
from auctune.service.zones.spot.job import Pace

OVER_CAP, OVER_BUDGET, NO_CAPACITY = "over_cap", "over_budget", "no_capacity"


def rejection_reason(
    need: Money, cap: Money, left: Money | None, num_open: int, num_jobs: int
) -> str | None:
    """Why a job is refused; none: it is admitted.

    Args:
        need: what it costs with a probability of 0.9.
        cap: the most that its owner pays.
        left: of the owner's budget; none: any amount.
        num_open: jobs that are not over.
        num_jobs: that the zone runs at once.
    """
    if num_open >= num_jobs:
        return NO_CAPACITY
    if need > cap:
        return OVER_CAP
    if left is not None and need > left:
        return OVER_BUDGET
    return None


def reserved_amount(cap: Money, left: Money | None) -> Money:
    """What is set aside for a job."""
    return cap if left is None else min(cap, left)


def decision_record(
    estimate: Estimate, cap: Money, left: Money | None, num_open: int, max_jobs: int
) -> dict[str, Any]:
    """Decide on a job, and return the `decision` of its event.

    Args:
        estimate: of the job's cost.
        cap: the most that its owner pays.
        left: of the owner's budget, or `None` without one.
        num_open: jobs that are not over.
        max_jobs: that the zone runs at once.
    """
    need = estimate.p90_cost
    reason = rejection_reason(need, cap, left, num_open, max_jobs)
    return {
        "admitted": reason is None,
        "reason": reason,
        "max_cost": str(cap),
        "least_max_cost": str(need) if reason == OVER_CAP else None,
        "estimate": estimate.to_record(),
    }


def first_slot(clock: SlotClock, slot: int, ready_at: float) -> int:
    """Return the first slot after `slot` that begins when a job can train."""
    return max(slot + 1, clock.first_slot_from(ready_at))


def estimate_of(
    terms: JobTerms,
    first: int,
    slot: int,
    pace: Pace,
    renting: Renting,
    market: ReplayedRecord,
    clock: SlotClock,
    unit_price: float,
) -> Estimate:
    """What a job is likely to come to, by the market seen so far; takes a while.

    Args:
        terms: of the job.
        first: its first slot.
        slot: the newest one.
        pace: by which the terms were made; each of its speeds is as likely.
        renting: how it rents.
        market: that the zone replays.
        clock: of the zone.
        unit_price: of an on-demand instance for a slot.
    """
    speeds = [speed / pace.speed for speed in pace.speeds]
    found = estimate(terms.job(), renting, market.seen(slot), first - slot, speeds)
    begins, seconds = clock.slot_start(first), clock.slot_seconds
    return Estimate(
        expected_cost=round_money(found.cost * unit_price),
        p90_cost=round_money(found.cost_p90 * unit_price),
        finish=begins + found.finish_p50 * seconds,
        finish_p90=begins + found.finish_p90 * seconds,
        risk=found.risk,
    )


def charge_amount(paid: float, unit_price: float, left: Money) -> Money:
    """What an owner is charged for what was paid, in units of the on-demand price.

    What is above the cap is a rounding of ours, and not charged.
    """
    return min(round_money(paid * unit_price), left)


def value_at(worth: Mapping[str, Any], time: float) -> Money | None:
    """What a job on record is worth if it is done at a moment; none: its owner did not say."""
    if worth["amount"] is None:
        return None
    amount, deadline, zero_at = Money(worth["amount"]), worth["deadline"], worth["zero_at"]
    if time <= deadline:
        return amount
    if time >= zero_at:
        return amount * 0
    share = (zero_at - time) / (zero_at - deadline)
    return (amount * Money(share)).quantize(amount)
