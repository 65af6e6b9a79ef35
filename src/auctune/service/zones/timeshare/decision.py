"""Bids and decisions of a timeshare zone: the service and replays call the same functions."""

from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from auctune.domain import Money, Reason, round_money
from auctune.domain.data_size import DataSize
from auctune.domain.money import ZERO
from auctune.engine.pool.epoch import MAX_OVERRUN_QUANTA
from auctune.service.jobs.training import ZoneBid
from auctune.service.zones.core.metered import Estimate, reserved_amount


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


def decision_record(
    estimate: Estimate | None, cap: Money, left: Money | None, target_loss: float
) -> dict[str, Any]:
    """Decide on a job, and return the `decision` of its event.

    `left` is what remains of the owner's budget; without an estimate the job is rejected.
    """
    reserved = reserved_amount(cap, left)
    admitted = reserved > ZERO or cap == ZERO
    return {
        "admitted": admitted,
        "reason": None if admitted else Reason.OVER_BUDGET,
        "max_cost": str(reserved if admitted else cap),
        "min_max_cost": None,
        "estimate": to_jsonable_python(estimate),
        "target_loss": target_loss,
    }


def charge_amount(seconds: float, price: Money, left: Money) -> Money:
    """Return the charge for seconds of the pool, at most what is left of the cap."""
    return min(left, round_money(float(price) * seconds))


def held_after_cancel(price: Money, unit_seconds: float, left: Money) -> Money:
    """Return the amount still set aside of a cancelled job: the most that one unit may cost."""
    return charge_amount(MAX_OVERRUN_QUANTA * unit_seconds, price, left)
