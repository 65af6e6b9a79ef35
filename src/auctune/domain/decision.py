"""Schedules, decisions on bids, price menus and receipts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from auctune.domain.money import ZERO, Money, least_above


class Cell(NamedTuple):
    """One slot on one node; `node` is the node's id."""

    slot: int
    node: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """A task's plan.

    Attributes:
        cells: in slot order, at most one a slot, not necessarily consecutive.
        vendor: who prepares the data; None where no work is needed.
    """

    cells: tuple[Cell, ...]
    vendor: str | None = None

    def __post_init__(self) -> None:
        if not self.cells:
            raise ValueError("a schedule without cells; expected at least one")
        before = -1
        for slot, _ in self.cells:
            if slot <= before:
                raise ValueError("cells are not in slot order with at most one per slot")
            before = slot

    @property
    def start(self) -> int:
        """The first slot in which it runs."""
        return self.cells[0].slot

    @property
    def finish(self) -> int:
        """The last slot in which it runs."""
        return self.cells[-1].slot


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
        price: the rounded price of its best schedule, which a bid must exceed; None where there
            is no schedule, or where the mechanism charges the bid.
        schedule: its plan; none for a rejected one.
        value: bid less vendor's price and operating cost (b_il), not rounded; None if rejected.
        surplus: F of the schedule, not rounded; None if rejected.
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
        """The least bid that would have been admitted; None where no bid would."""
        return None if self.price is None else least_above(self.price)


@dataclass(frozen=True, slots=True)
class MenuLine:
    """One choice: finished by the end of slot `deadline` for `price`, by this plan."""

    deadline: int
    price: Money
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class PriceMenu:
    """The choices for one task, earliest first, each cheaper than the one before.

    It holds nothing: it is true for the market's state when it was made.
    """

    task: str
    lines: tuple[MenuLine, ...]

    def by(self, deadline: int) -> MenuLine | None:
        """The cheapest choice that is finished by the end of slot `deadline`, if there is one."""
        affordable = [line for line in self.lines if line.deadline <= deadline]
        return affordable[-1] if affordable else None
