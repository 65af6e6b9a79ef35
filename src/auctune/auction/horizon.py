"""The slots that a market sells, and where they lie in its arrays.

A market with an end sells all its slots from the start: slot t is row t. A market without one
sells a window of W slots that moves on with time. Its arrays have 2 W rows, row 0 being slot
`origin`; slots enter at the window's end, and when the rows run out those still needed move to
the front: each row is moved once in W slots. So kernels see plain arrays [row, node] either way.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auctune.domain import InputError, Saved
from auctune.domain.snapshot import read_array


class Shift(NamedTuple):
    """What became of the rows when the window moved.

    Attributes:
        dropped: rows that went from the front; the ones after them moved up by so many.
        kept: rows that moved up, if any were dropped.
        first, last: the rows [first, last) of slots that entered, whatever they held before.
    """

    dropped: int
    kept: int
    first: int
    last: int

    def move(self, rows: NDArray[Any], fresh: Any) -> None:
        """Move the rows of an array, and fill those that entered."""
        if self.dropped:
            rows[: self.kept] = rows[self.dropped : self.dropped + self.kept]
        rows[self.first : self.last] = fresh


class Horizon:
    """Which slots are for sale.

    Args:
        num_slots: of the market, or of its window (W).
        rolls: whether the window moves on.

    Attributes:
        first: the first slot of the window; 0 in a market with an end.
        origin: the slot of row 0; 0 in a market with an end.
        num_rows: of the arrays.
    """

    def __init__(self, num_slots: int, *, rolls: bool) -> None:
        self.num_slots = num_slots
        self.rolls = rolls
        self.first = 0
        self.origin = 0
        self.num_rows = 2 * num_slots if rolls else num_slots

    @property
    def rows(self) -> slice:
        """The rows of the window."""
        first = self.first - self.origin
        return slice(first, first + self.num_slots)

    @property
    def last(self) -> int:
        """The last slot of the window."""
        return self.first + self.num_slots - 1

    def entering(self, now: int) -> range:
        if not self.rolls or now <= self.first:
            return range(0)
        return range(max(self.first + self.num_slots, now), now + self.num_slots)

    def advance(self, now: int) -> Shift:
        assert self.rolls
        assert now > self.first
        fresh = len(self.entering(now))
        kept = self.num_slots - fresh
        start, dropped = now - self.origin, 0
        if start + self.num_slots > self.num_rows:
            start, dropped = 0, start
            self.origin = now
        self.first = now
        return Shift(dropped, kept, start + kept, start + self.num_slots)


def save_rows(horizon: Horizon, **by_row: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the rows of the window, of each of these arrays: nothing depends on others."""
    return {name: rows[horizon.rows].copy() for name, rows in by_row.items()}


def read_rows(horizon: Horizon, saved: Saved, **by_row: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the rows that `save_rows` gave, as arrays of the same kinds as these.

    Raises:
        InputError: if they are those of a market of another size, or no numbers.
    """
    found = {}
    for name, rows in by_row.items():
        array = read_array(saved, name, (horizon.num_slots, *rows.shape[1:]))
        if not np.issubdtype(array.dtype, np.number):
            raise InputError(f"snapshot.{name}", f"holds {array.dtype}", "numbers")
        found[name] = array.astype(rows.dtype)
    return found


def load_rows(horizon: Horizon, saved: Saved, **by_row: NDArray[Any]) -> None:
    """Put rows that `save_rows` gave into arrays of the same horizon, in place.

    Raises:
        InputError: as `read_rows`; nothing has changed then.
    """
    for name, rows in read_rows(horizon, saved, **by_row).items():
        by_row[name][horizon.rows] = rows
