"""Recorded spot markets: the part that a job replays, and a market that repeats without end."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.numerics.arrays import Floats, Ints
from auctune.sim.spot.files import SpotRecord, read_record
from auctune.sim.spot.trace import FixedPrice, FromFile, MarketRecipe, read_market
from auctune.spot.job import SpotJob
from auctune.spot.market import SpotMarket

# The history that forecasts use: six weeks of half hours.
MAX_HISTORY = 2016


@dataclass(frozen=True, slots=True, eq=False)
class MarketTrace:
    """Price and number of spot instances over a job, as step functions of time.

    Where the record is finer than a slot, instances are preempted in the middle of a slot.

    Attributes:
        times: [k] slots since the job began, rising, the first one 0; each entry holds until the
            next, the last one for at most one slot.
        price: [k] of a spot instance for a slot.
        available: [k] spot instances.
        on_demand_price: of an on-demand instance for a slot, in the same unit.
    """

    times: Floats
    price: Floats
    available: Ints
    on_demand_price: float = 1.0

    def __post_init__(self) -> None:
        # A market of slots has the same checks of prices, counts and shapes.
        values = SpotMarket(self.price, self.available, self.on_demand_price)
        times = np.array(self.times, dtype=np.float64)
        if times.shape != values.price.shape or not len(times):
            raise InputError(
                "times", f"shape {times.shape}", "one for each price, and one at least"
            )
        if times[0] != 0 or not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
            raise InputError("times", f"{times[:4].tolist()}...", "rising numbers from 0 on")
        times.flags.writeable = False
        for name, value in (
            ("times", times),
            ("price", values.price),
            ("available", values.available),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "MarketTrace":
        """Return the trace of a record, whose arrays are lists; see `first`."""
        return cls(
            np.array(record["times"]),
            np.array(record["price"]),
            np.array(record["available"]),
            record.get("on_demand_price", 1.0),
        )

    @classmethod
    def of_slots(cls, market: SpotMarket) -> "MarketTrace":
        """Return a trace that changes only at the start of a slot."""
        return cls(
            np.arange(market.num_slots, dtype=np.float64),
            market.price,
            market.available,
            market.on_demand_price,
        )

    @classmethod
    def of_seconds(
        cls,
        seconds: Sequence[float] | Floats,
        price: Floats,
        available: Ints,
        *,
        slot_seconds: float,
        start: float = 0.0,
        on_demand_price: float = 1.0,
    ) -> "MarketTrace":
        """Return the trace of a record with times in seconds.

        Args:
            seconds: [k] rising.
            price: [k].
            available: [k].
            slot_seconds: length of a slot, in the record's time.
            start: when the job begins, not before the record does.
            on_demand_price: in the unit of `price`.

        Raises:
            InputError: if the record begins later, or its values are invalid.
        """
        check_positive(slot_seconds, "slot_seconds", "a number > 0")
        moments = np.asarray(seconds, dtype=np.float64)
        first = int(np.searchsorted(moments, start, side="right")) - 1
        if first < 0:
            raise InputError("start", f"{start!r}", "a moment within the record")
        times = np.maximum((moments[first:] - start) / slot_seconds, 0.0)
        return cls(times, price[first:], available[first:], on_demand_price)

    @property
    def num_slots(self) -> int:
        """Number of whole slots that the trace covers."""
        return int(np.floor(self.times[-1])) + 1

    @property
    def digest(self) -> str:
        """SHA-256 of all values."""
        total = hashlib.sha256(repr(self.on_demand_price).encode())
        for array in (self.times, self.price, self.available):
            total.update(array.tobytes())
        return total.hexdigest()

    def at(self, now: float) -> tuple[float, int]:
        """Return the price and the number of spot instances at a time."""
        index = self._index(now)
        return float(self.price[index]), int(self.available[index])

    def first(self, num_slots: int) -> dict[str, Any]:
        """Return the record of the first slots at least, as JSON can hold it."""
        # With the entry that ends the last of them.
        count = int(np.searchsorted(self.times, num_slots, side="left")) + 1
        return {
            "times": self.times[:count].tolist(),
            "price": self.price[:count].tolist(),
            "available": self.available[:count].tolist(),
            "on_demand_price": self.on_demand_price,
        }

    def min_available(self, since: float, now: float) -> int:
        """Return the least number of spot instances from `since` to `now`, both included."""
        return int(self.available[self._index(since) : self._index(now) + 1].min())

    def _index(self, now: float) -> int:
        return max(0, int(np.searchsorted(self.times, now, side="right")) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class LoopedTrace:
    """A recorded market replayed slot by slot without end: after its last slot comes its first.

    Slot 0 of the replay is slot `start` of the record. Earlier slots are the history that
    forecasts and estimates begin with.

    Attributes:
        market: one loop, in slots.
        record: the same, as fine as its file.
        start: slot of the record with which the replay begins.
    """

    market: SpotMarket
    record: SpotRecord
    start: int

    @property
    def digest(self) -> str:
        """SHA-256 of one loop and its start."""
        total = hashlib.sha256(repr((self.start, self.market.slot_seconds)).encode())
        for array in (self.record.seconds, self.record.price, self.record.available):
            total.update(array.tobytes())
        return total.hexdigest()

    def quote(self, slot: int) -> tuple[float, int]:
        """Return price and count at the start of a slot, when jobs choose their allocation."""
        market = self.slot_starts(slot, 1)
        return float(market.price[0]), int(market.available[0])

    def history(self, slot: int) -> SpotMarket:
        """Return the market up to a slot of the replay, which is its last slot."""
        last = self.start + slot
        places = np.arange(max(0, last - MAX_HISTORY + 1), last + 1) % self.market.num_slots
        return SpotMarket(
            self.market.price[places],
            self.market.available[places],
            self.market.on_demand_price,
            self.market.slot_seconds,
        )

    def slot_starts(self, first: int, count: int) -> SpotMarket:
        """Return slots of the replay with the values at their start, which a job observes."""
        record = self.trace(first, count)
        places = np.searchsorted(record["times"], np.arange(count), side="right") - 1
        return SpotMarket(
            np.array(record["price"])[places],
            np.array(record["available"], dtype=np.int64)[places],
            self.market.on_demand_price,
            self.market.slot_seconds,
        )

    def trace(self, first: int, count: int) -> dict[str, list[Any]]:
        """Return the arguments of a `MarketTrace` of `count` slots from `first` on, as lists."""
        seconds, length = self.market.slot_seconds, self.market.num_slots
        begin = (self.start + first) * seconds
        loop_seconds = length * seconds
        own = self.record.seconds < loop_seconds
        loops = range(
            int(begin // loop_seconds), int((begin + count * seconds) // loop_seconds) + 1
        )
        moments = np.concatenate([self.record.seconds[own] + k * loop_seconds for k in loops])
        price = np.tile(self.record.price[own], len(loops))
        available = np.tile(self.record.available[own], len(loops))
        low = int(np.searchsorted(moments, begin, side="right")) - 1
        high = int(np.searchsorted(moments, begin + count * seconds, side="left"))
        times = np.maximum((moments[low:high] - begin) / seconds, 0.0)
        return {
            "times": times.tolist(),
            "price": price[low:high].tolist(),
            "available": available[low:high].tolist(),
        }


def read_looped_trace(
    market: Path,
    prices: Path | None,
    fixed_price: float | None,
    *,
    on_demand_price: float,
    slot_seconds: float,
    start: int | None,
) -> LoopedTrace:
    """Read a market from files; docs/reference/spot-files.md has their format.

    Args:
        market: counts, and prices unless they come from elsewhere.
        prices: another file with the prices; None: the same.
        fixed_price: a constant price; None: those of a file.
        on_demand_price: of a GPU for an hour, in the currency of the prices.
        slot_seconds: length of a slot, in the record's time.
        start: see `LoopedTrace`; None: a third of the record.

    Raises:
        InputError: naming the file, or `start`.
    """
    price: FromFile | FixedPrice | None = None
    if prices is not None:
        price = FromFile(prices)
    elif fixed_price is not None:
        price = FixedPrice(fixed_price)
    recipe = MarketRecipe(
        available=FromFile(market),
        price=price,
        on_demand_price=on_demand_price,
        slot_seconds=slot_seconds,
    )
    slots, record = read_market(recipe), read_record(recipe)
    if slots.num_slots < 1:
        raise InputError(str(market), "has no whole slot", f"{slot_seconds:g} s at least")
    first = slots.num_slots // 3 if start is None else start
    if not 0 <= first < slots.num_slots:
        raise InputError("start", f"{first}", f"a slot of the market, 0 to {slots.num_slots - 1}")
    return LoopedTrace(slots, record, first)


def make_trace(recipe: MarketRecipe, market: SpotMarket, job: SpotJob, start: int) -> MarketTrace:
    """Return the market from the job's start on, as fine as its files.

    Raises:
        InputError: if it ends before the job's deadline.
    """
    if not 0 <= start <= market.num_slots - job.deadline:
        latest = market.num_slots - job.deadline
        expected = f"0 to {latest}: of {market.num_slots} slots the job may take {job.deadline}"
        if latest < 0:
            expected = f"a market of {job.deadline} slots at least, not {market.num_slots}"
        raise InputError("start", f"{start}", expected)
    record = read_record(recipe)
    seconds = market.slot_seconds
    end = int(np.searchsorted(record.seconds, market.num_slots * seconds, side="left"))
    return MarketTrace.of_seconds(
        record.seconds[:end],
        record.price[:end],
        record.available[:end],
        slot_seconds=seconds,
        start=start * seconds,
    )
