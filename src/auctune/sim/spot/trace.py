"""Market files: a CSV with t_s, available and price, on an even grid; docs/reference/spot-files.md.

Each line holds from its time until the next one's, the last for as long as the others. A column
that is empty throughout is a series that nobody recorded; it is never made up here.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from auctune.csv_table import Table, read_table
from auctune.domain import InputError
from auctune.numerics.arrays import Floats, Ints

COLUMNS = ("t_s", "available", "price")

# Of counts and prices: far above any market, and small enough that sums of products stay numbers.
_MOST = 10**9

# A step that differs from the others by less than this share of them is even.
_UNEVEN = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class SpotTrace:
    """What was recorded of a market.

    Attributes:
        place: how errors call it.
        t_s: [k] seconds, evenly rising, two at least.
        available: [k] instances; none: not recorded.
        price: [k] of a GPU for an hour, in the file's money; none: not recorded.
    """

    place: str
    t_s: Floats
    available: Ints | None
    price: Floats | None

    @property
    def step_seconds(self) -> float:
        """How long each line holds."""
        return float(self.t_s[-1] - self.t_s[0]) / (len(self.t_s) - 1)

    @property
    def end_s(self) -> float:
        """When the last line ceases to hold."""
        return float(self.t_s[-1]) + self.step_seconds

    def recorded_available(self) -> Ints:
        """The counts.

        Raises:
            InputError: if there are none.
        """
        if self.available is None:
            raise self._missing("available", "counts")
        return self.available

    def recorded_price(self) -> Floats:
        """The prices.

        Raises:
            InputError: if there are none.
        """
        if self.price is None:
            raise self._missing("price", "prices")
        return self.price

    def _missing(self, column: str, what: str) -> InputError:
        return InputError(
            f"{self.place}: {column}", "is empty throughout", f"{what}, or another file for them"
        )


def read_trace(path: Path) -> SpotTrace:
    """The market in a file, gzipped or not.

    Raises:
        InputError: naming the file and the line: for a hole, an irregular or falling time, a
            number that is negative, broken or above 10^9, a column that is empty in part.
    """
    table = read_table(path, COLUMNS)
    times = table.number("t_s", "seconds >= 0", 0).to_numpy()
    if len(times) < 2:
        raise InputError(str(path), f"has {len(times)} lines of data", "two at least")
    _check_even(table, times)
    available = _series(table, "available", "a whole number >= 0")
    if available is not None:
        broken = np.flatnonzero(available != np.floor(available))
        if len(broken):
            raise _refusal(table, int(broken[0]), "available", "a whole number >= 0")
    price = _series(table, "price", "a price >= 0, per GPU and hour")
    if available is None and price is None:
        raise InputError(str(path), "has neither counts nor prices", "one of them at least")
    counts = None if available is None else available.astype(np.int64)
    return SpotTrace(str(path), times, counts, price)


def _series(table: Table, column: str, expected: str) -> Floats | None:
    if table.frame[column].is_null().all():
        return None
    values = table.number(column, expected, 0).to_numpy()
    high = np.flatnonzero(values > _MOST)
    if len(high):
        raise _refusal(table, int(high[0]), column, f"at most {_MOST}")
    return values


def _check_even(table: Table, times: Floats) -> None:
    steps = np.diff(times)
    values, counts = np.unique(steps[steps > 0], return_counts=True)
    step = float(values[counts.argmax()]) if len(values) else 0.0
    uneven = np.flatnonzero((steps <= 0) | (np.abs(steps - step) > _UNEVEN * step))
    if not len(uneven):
        return
    row = int(uneven[0]) + 1
    found = f"{times[row]:g} after {times[row - 1]:g}"
    if steps[row - 1] <= 0:
        raise _placed(table, row, f"{found} does not rise", "rising times")
    kind = "leaves a hole" if steps[row - 1] > step else "comes early"
    raise _placed(table, row, f"{found} {kind}", f"steps of {step:g} s as elsewhere")


def _refusal(table: Table, row: int, column: str, expected: str) -> InputError:
    return InputError(
        f"{table.place}: line {table.frame['line'][row]}: {column}",
        repr(table.frame[column][row]),
        expected,
    )


def _placed(table: Table, row: int, found: str, expected: str) -> InputError:
    return InputError(f"{table.place}: line {table.frame['line'][row]}: t_s", found, expected)
