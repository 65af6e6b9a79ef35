"""Traces of spot markets: their files, their resampling to slots, and markets made of them."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_finite, check_positive
from auctune.files.csv_table import Table, read_table
from auctune.numerics.arrays import Floats, Ints
from auctune.spot.market import SpotMarket

# Market files: a CSV with t_s, available and price, on an even grid; docs/reference/spot-files.md.
#
# Each line holds from its time until the next one's, the last for as long as the others. A column
# that is empty throughout is a series that nobody recorded; it is never made up here.


COLUMNS = ("t_s", "available", "price")

# Of counts and prices: far above any market, and small enough that sums of products stay numbers.
MAX_VALUE = 10**9

# A step that differs from the others by less than this share of them is even.
_UNEVEN = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class SpotTrace:
    """What was recorded of a market.

    Attributes:
        place: how errors call it.
        t_s: [k] seconds, evenly rising, two at least.
        available: [k] instances; None: not recorded.
        price: [k] of a GPU for an hour, in the file's money; None: not recorded.
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
        """Return the counts.

        Raises:
            InputError: if there are none.
        """
        if self.available is None:
            raise self._missing("available", "counts, or another file for them")
        return self.available

    def recorded_price(self) -> Floats:
        """Return the prices.

        Raises:
            InputError: if there are none.
        """
        if self.price is None:
            raise self._missing("price", "prices, another file of them (--prices) or --fixed-price")
        return self.price

    def _missing(self, column: str, expected: str) -> InputError:
        return InputError(f"{self.place}: {column}", "is empty throughout", expected)


def read_trace(path: Path) -> SpotTrace:
    """Return the market in a file, gzipped or not.

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
    high = np.flatnonzero(values > MAX_VALUE)
    if len(high):
        raise _refusal(table, int(high[0]), column, f"at most {MAX_VALUE}")
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


# Edges of slots and of lines that differ by less than this share of a line are one.
_SAME = 1e-6

# Of a market: half a minute each for ten years, and no more than memory has room for.
_MOST_SLOTS = 10**7


def slot_prices(trace: SpotTrace, start_s: float, slot_seconds: float, num_slots: int) -> Floats:
    """[t] the time mean of the price in each slot, in the file's money.

    Args:
        trace: that has prices.
        start_s: when slot 0 begins, in the trace's time.
        slot_seconds: length of a slot.
        num_slots: at most `whole_slots`.

    Raises:
        InputError: if the trace has no prices, or not for all the slots.
    """
    price = trace.recorded_price()
    means = np.empty(num_slots)
    for slot, (begin, end) in enumerate(_edges(trace, start_s, slot_seconds, num_slots)):
        lines = np.arange(math.floor(begin), math.ceil(end))
        held = np.minimum(lines + 1, end) - np.maximum(lines, begin)
        part = price[lines]
        # A price that does not change is its own mean to the last bit.
        flat = part.min() == part.max()
        means[slot] = part[0] if flat else float(part @ held) / (end - begin)
    return means


def slot_counts(trace: SpotTrace, start_s: float, slot_seconds: float, num_slots: int) -> Ints:
    """[t] the least count in each slot; arguments and errors as of `slot_prices`."""
    available = trace.recorded_available()
    edges = _edges(trace, start_s, slot_seconds, num_slots)
    least = [available[math.floor(begin) : math.ceil(end)].min() for begin, end in edges]
    return np.array(least, dtype=np.int64)


def whole_slots(trace: SpotTrace, start_s: float, slot_seconds: float) -> int:
    """Slots from `start_s` on that the trace covers; a part of one at its end is left out.

    Raises:
        InputError: if there is none or more than 10^7, or the start lies before the trace.
    """
    check_positive(slot_seconds, "slot_seconds", "a number > 0")
    lines = (trace.end_s - start_s) / trace.step_seconds
    slots = lines * trace.step_seconds / slot_seconds + _SAME
    covered = f"covers {trace.t_s[0]:g} to {trace.end_s:g} s"
    wanted = f"slots of {slot_seconds:g} s from {start_s:g} s on"
    if start_s < trace.t_s[0] or slots < 1:
        raise InputError(trace.place, covered, wanted)
    if slots > _MOST_SLOTS:
        raise InputError(trace.place, covered, f"{wanted}, at most {_MOST_SLOTS} of them")
    return math.floor(slots)


def _edges(
    trace: SpotTrace, start_s: float, slot_seconds: float, num_slots: int
) -> list[tuple[float, float]]:
    """Beginning and end of each slot, in lines of the trace."""
    if num_slots > whole_slots(trace, start_s, slot_seconds):
        raise InputError(trace.place, f"ends at {trace.end_s:g} s", f"{num_slots} slots")
    first = start_s - float(trace.t_s[0])
    edges = (first + slot_seconds * np.arange(num_slots + 1)) / trace.step_seconds
    near = np.round(edges)
    edges = np.where(np.abs(edges - near) < _SAME, near, edges)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


# USD for an hour of one V100 on demand, us-east-1, 2020.
ON_DEMAND_V100 = 3.06

# 0.918 USD of 3.06 is the threshold 0.3, not its neighbour.
_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class FixedPrice:
    """A price that never changes, for counts that were recorded without one.

    Attributes:
        price: in the money of the on-demand price.
    """

    price: float

    def __post_init__(self) -> None:
        check_finite(self.price, "price", "a price >= 0")


@dataclass(frozen=True, slots=True)
class FromFile:
    """A series of a file.

    Attributes:
        path: a market file (auctune.sim.spot.trace).
        start_s: the second of that file with which slot 0 begins.
    """

    path: Path
    start_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketRecipe:
    """What a market is put together from; it lasts as long as the shorter of its series.

    Attributes:
        available: where the counts come from.
        price: where the prices come from; by default from the same.
        on_demand_price: of a GPU for an hour, in the money of the prices, which are divided by it.
        slot_seconds: length of a slot.
    """

    available: FromFile
    price: FromFile | FixedPrice | None = None
    on_demand_price: float = 1.0
    slot_seconds: float = 1800.0

    def __post_init__(self) -> None:
        check_positive(self.on_demand_price, "on_demand_price", "a number > 0")
        check_positive(self.slot_seconds, "slot_seconds", "a number > 0")


def read_market(recipe: MarketRecipe) -> SpotMarket:
    """Return the market of a recipe, in units of the on-demand price.

    Raises:
        InputError: if a file is wrong, lacks the series wanted of it, or ends before its start.
    """
    counts = read_trace(recipe.available.path)
    # Before anything else is read: the commonest mistake is a file of prices alone.
    counts.recorded_available()
    start_s, seconds = recipe.available.start_s, recipe.slot_seconds
    num_slots = whole_slots(counts, start_s, seconds)
    source = recipe.price or recipe.available
    if isinstance(source, FixedPrice):
        price: Floats = np.full(num_slots, source.price)
    else:
        prices = counts if source.path == recipe.available.path else read_trace(source.path)
        prices.recorded_price()
        num_slots = min(num_slots, whole_slots(prices, source.start_s, seconds))
        price = slot_prices(prices, source.start_s, seconds, num_slots)
    available = slot_counts(counts, start_s, seconds, num_slots)
    return SpotMarket(in_units(price, recipe.on_demand_price), available, slot_seconds=seconds)


def in_units(price: Floats, on_demand_price: float) -> Floats:
    """Prices divided by the on-demand price."""
    return np.round(price / on_demand_price, _DECIMALS)


def join(
    counts: SpotTrace,
    prices: SpotTrace,
    *,
    price_start_s: float,
    on_demand_price: float,
    slot_seconds: float,
) -> SpotMarket:
    """Return all slots of some counts, beside the prices from `price_start_s` on.

    Raises:
        InputError: if a series is missing, or the prices end before the counts.
    """
    start_s = float(counts.t_s[0])
    num_slots = whole_slots(counts, start_s, slot_seconds)
    price = slot_prices(prices, price_start_s, slot_seconds, num_slots)
    available = slot_counts(counts, start_s, slot_seconds, num_slots)
    return SpotMarket(in_units(price, on_demand_price), available, slot_seconds=slot_seconds)
