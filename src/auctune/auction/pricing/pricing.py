"""What a mechanism asks of its prices."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray

from auctune.auction.book import Floats, Ints
from auctune.auction.horizon import Shift
from auctune.auction.search.problem import Request
from auctune.domain import Saved, Task

Lesson: TypeAlias = Mapping[str, NDArray[Any]]
"""What was learned, as `PricesLearned` holds it."""


class Pricing(Protocol):
    """Prices of all cells; they use what earlier bids revealed, never the bid being priced.

    Attributes:
        lam: [T, N] money per sample.
        phi: [T, N] money per GB-slot.

    Rows are those of the book. `now` is a slot, all other slots here are rows.
    """

    lam: Floats
    phi: Floats

    def begin(self, now: int) -> None:
        """Slot `now` has begun, and prices have not learned from it yet."""
        ...

    def start(self, now: int) -> Lesson | None:
        """Learn from the slots before slot `now`, which has begun.

        Returns:
            The lesson if prices moved, which was taken over by `learned`.
        """
        ...

    def within(self) -> Lesson | None:
        """Called before each bid: learn from this slot's bids if it is time, as `start` does."""
        ...

    def is_due(self) -> bool:
        """Whether `within` would learn."""
        ...

    def learned(self, now: int, lesson: Lesson) -> None:
        """Take a lesson of slot `now` over, one's own or a recorded one."""
        ...

    def moved(self, shift: Shift) -> None:
        """The window of a market without an end moved on, and the book with it.

        Move the rows of all arrays in place, and price those that entered; `begin` follows.
        """
        ...

    def chose(self, slots: Ints, nodes: Ints, request: Request, value: float) -> None:
        """A profitable task chose these cells, with room in them or not.

        Args:
            slots, nodes: of the cells.
            request: the task.
            value: bid less vendor's price and operating cost (b_il), money.
        """
        ...

    def booked(self, slots: Ints, nodes: Ints) -> None:
        """The use of these cells changed."""
        ...

    def saw(self, task: Task) -> None:
        """A bid was decided, one way or the other."""
        ...

    def save(self) -> Saved:
        """All that later prices follow from, but for the book."""
        ...

    def load(self, saved: Saved) -> None:
        """Take over what was saved; the book has taken over its part."""
        ...
