"""What the market answers to a bid, at once and for good."""

from dataclasses import dataclass
from enum import StrEnum

from auctune.domain.money import ZERO, Money, least_above
from auctune.domain.schedule import Schedule


class Reason(StrEnum):
    """Why a bid was rejected."""

    NO_FEASIBLE_SCHEDULE = "no_feasible_schedule"
    """Not even an empty market could run it by its deadline."""
    NO_CAPACITY = "no_capacity"
    """What is left of the market cannot run it by its deadline."""
    UNPROFITABLE = "unprofitable"
    """The bid is not above the price."""
    OVER_BUDGET = "over_budget"
    """The price is above what is left of its owner's budget; decided by the service."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one bid.

    Attributes:
        task: the task's id.
        admitted: whether it will run.
        payment: what its owner pays; 0 for a rejected one.
        price: the rounded price of its best schedule, which a bid must exceed; none where there
            is no schedule, or where the mechanism charges the bid.
        schedule: its plan; none for a rejected one.
        value: bid less vendor's price and operating cost (b_il), not rounded; none if rejected.
        surplus: F of the schedule, not rounded; none if rejected.
        reason: why it was rejected; none for an admitted one.
    """

    task: str
    admitted: bool
    payment: Money = ZERO
    price: Money | None = None
    schedule: Schedule | None = None
    value: float | None = None
    surplus: float | None = None
    reason: Reason | None = None

    def __post_init__(self) -> None:
        if self.admitted == (self.schedule is None):
            raise ValueError(f"decision for {self.task!r}: a schedule if and only if admitted")
        if self.admitted != (self.reason is None):
            raise ValueError(f"decision for {self.task!r}: a reason if and only if rejected")

    @property
    def min_bid(self) -> Money | None:
        """The least bid that would have been admitted; none where no bid would."""
        return None if self.price is None else least_above(self.price)
