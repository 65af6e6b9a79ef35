"""What a mechanism asks of its prices."""

from typing import Protocol

from auctune.auction.book import Floats, Ints
from auctune.auction.horizon import Shift
from auctune.auction.search.problem import Request
from auctune.domain import Task


class Pricing(Protocol):
    """Prices of all cells; they use what earlier bids revealed, never the bid being priced.

    Attributes:
        lam: [T, N] money per sample.
        phi: [T, N] money per GB-slot.

    Rows are those of the book. `now` is a slot, all other slots here are rows.
    """

    lam: Floats
    phi: Floats

    def start(self, now: int) -> None:
        """Slot `now` has begun; called once, before its first bid is looked at."""
        ...

    def within(self) -> None:
        """Called before each bid: take over what this slot's bids taught, if it is time."""
        ...

    def moved(self, shift: Shift) -> None:
        """The window of a market without an end moved on, and the book with it.

        Move the rows of all arrays in place, and price those that entered; `start` follows.
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
