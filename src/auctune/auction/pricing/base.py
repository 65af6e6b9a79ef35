"""Base class of prices, which do nothing by default at each of the events that may move them."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from auctune.auction.horizon import Shift, load_rows, save_rows
from auctune.auction.ledger import CapacityLedger
from auctune.auction.search.problem import Request
from auctune.domain import Saved, Task
from auctune.numerics.arrays import Floats, Ints

PriceUpdate: TypeAlias = Mapping[str, NDArray[Any]]
"""What moves prices, as `PricesLearned` holds it."""


class Pricing:
    """Prices of all cells; they use what earlier bids revealed, never the bid being priced.

    Attributes:
        lam: [T, N] money per sample.
        phi: [T, N] money per GB-slot.

    Rows are those of the ledger. `now` is a slot, all other slots here are rows.
    """

    def __init__(self, ledger: CapacityLedger) -> None:
        self._ledger = ledger
        self.lam: Floats = np.zeros_like(ledger.usage.compute)
        self.phi: Floats = np.zeros_like(ledger.usage.memory)

    def begin_slot(self, now: int) -> None:
        """Slot `now` has begun; prices have not been updated yet."""

    def update(self, now: int) -> PriceUpdate | None:
        """Learn from the slots before slot `now`, which has begun.

        Returns:
            The update if prices moved, applied already.
        """
        return None

    def needs_update(self) -> bool:
        """Return whether this slot's bids move prices before the next one is priced."""
        return False

    def update_within_slot(self) -> PriceUpdate | None:
        """Learn from this slot's bids if `needs_update`; called before each bid."""
        return None

    def apply_update(self, now: int, update: PriceUpdate) -> None:
        """Move prices in slot `now` by an update, just made or recorded."""

    def on_window_shift(self, shift: Shift) -> None:
        """Follow the window of a market without an end; rows that enter cost nothing."""
        shift.move(self.lam, 0.0)
        shift.move(self.phi, 0.0)

    def on_bid(self, task: Task) -> None:
        """A bid was decided, one way or the other."""

    def on_selection(self, rows: Ints, nodes: Ints, request: Request, value: float) -> None:
        """A profitable task chose these cells, with room in them or not.

        Args:
            rows, nodes: of the cells.
            request: the task.
            value: bid less vendor's price and operating cost (b_il), money.
        """

    def on_allocation(self, rows: Ints, nodes: Ints) -> None:
        """The use of these cells changed."""

    def save(self) -> Saved:
        return save_rows(self._ledger.horizon, lam=self.lam, phi=self.phi)

    def load(self, saved: Saved) -> None:
        load_rows(self._ledger.horizon, saved, lam=self.lam, phi=self.phi)
