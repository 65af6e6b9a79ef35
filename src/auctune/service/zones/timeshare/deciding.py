"""What a timeshare zone's decision follows from, and nothing else: live and in a replay."""

from auctune.domain import Money, round_money
from auctune.domain.money import ZERO
from auctune.run.open_pool.pool_params import MAX_OVERRUN_UNITS

OVER_BUDGET = "over_budget"


def to_pay(cap: Money, left: Money | None) -> Money:
    """The most that a job can be charged.

    Args:
        cap: that its owner named.
        left: of the owner's budget; none: any amount.
    """
    return cap if left is None else min(cap, left)


def why_not(cap: Money, left: Money | None) -> str | None:
    """Why a job is refused; none: it is taken."""
    return None if to_pay(cap, left) > ZERO or cap == ZERO else OVER_BUDGET


def unit_charge(seconds: float, price: Money, left: Money) -> Money:
    """What an owner is charged for seconds of the pool; never above what is left of the cap."""
    return min(left, round_money(float(price) * seconds))


def held_after_cancel(price: Money, unit_seconds: float, left: Money) -> Money:
    """Return what stays set aside of a cancelled job: all that one unit may cost.

    Args:
        price: of a second of the pool.
        unit_seconds: length of a unit.
        left: what is set aside as it is cancelled.
    """
    return unit_charge(MAX_OVERRUN_UNITS * unit_seconds, price, left)
