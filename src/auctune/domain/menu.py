"""A price menu: what a task would cost, by the time at which it is finished."""

from dataclasses import dataclass

from auctune.domain.money import Money
from auctune.domain.schedule import Schedule


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
