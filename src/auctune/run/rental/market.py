"""A recorded market replayed slot by slot, over and over: at its end it begins again.

Slot 0 of the replay is slot `start` of the record: what lies before it is the past from which
forecasts and estimates are made when nothing has been seen yet.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from auctune.domain import InputError
from auctune.sim.spot.files import SpotRecord, read_record
from auctune.sim.spot.trace import FixedPrice, FromFile, MarketRecipe, read_market
from auctune.spot.market import SpotMarket

# Of the past no more is looked at: six weeks of half hours.
MOST_SEEN = 2016


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedRecord:
    """A market without an end.

    Attributes:
        market: one round of it, in slots.
        record: the same, as fine as its file.
        start: slot of the record with which the replay begins.
    """

    market: SpotMarket
    record: SpotRecord
    start: int

    @property
    def digest(self) -> str:
        """SHA-256 over one round and where it begins."""
        total = hashlib.sha256(repr((self.start, self.market.slot_seconds)).encode())
        for array in (self.record.seconds, self.record.price, self.record.available):
            total.update(array.tobytes())
        return total.hexdigest()

    def beginning(self, slot: int) -> tuple[float, int]:
        """Price and count as a slot of the replay begins, when jobs choose what they hold."""
        market = self.begun(slot, 1)
        return float(market.price[0]), int(market.available[0])

    def seen(self, slot: int) -> SpotMarket:
        """The market up to a slot of the replay: its last slot is that one, and begins now."""
        last = self.start + slot
        places = np.arange(max(0, last - MOST_SEEN + 1), last + 1) % self.market.num_slots
        return SpotMarket(
            self.market.price[places],
            self.market.available[places],
            self.market.on_demand_price,
            self.market.slot_seconds,
        )

    def begun(self, first: int, count: int) -> SpotMarket:
        """Slots of the replay as they are when they begin: what a job's process sees of them."""
        record = self.trace(first, count)
        places = np.searchsorted(record["times"], np.arange(count), side="right") - 1
        return SpotMarket(
            np.array(record["price"])[places],
            np.array(record["available"], dtype=np.int64)[places],
            self.market.on_demand_price,
            self.market.slot_seconds,
        )

    def trace(self, first: int, count: int) -> dict[str, list[Any]]:
        """Some slots as `auctune.run.spot.trace.MarketTrace` takes them, as plain values.

        Args:
            first: of the replay.
            count: of slots.
        """
        seconds, length = self.market.slot_seconds, self.market.num_slots
        begin = (self.start + first) * seconds
        round_seconds = length * seconds
        own = self.record.seconds < round_seconds
        rounds = range(
            int(begin // round_seconds), int((begin + count * seconds) // round_seconds) + 1
        )
        moments = np.concatenate([self.record.seconds[own] + k * round_seconds for k in rounds])
        price = np.tile(self.record.price[own], len(rounds))
        available = np.tile(self.record.available[own], len(rounds))
        low = int(np.searchsorted(moments, begin, side="right")) - 1
        high = int(np.searchsorted(moments, begin + count * seconds, side="left"))
        times = np.maximum((moments[low:high] - begin) / seconds, 0.0)
        return {
            "times": times.tolist(),
            "price": price[low:high].tolist(),
            "available": available[low:high].tolist(),
        }


def read_replayed(
    market: Path,
    prices: Path | None,
    fixed_price: float | None,
    *,
    on_demand_price: float,
    slot_seconds: float,
    start: int | None,
) -> ReplayedRecord:
    """A market of files; docs/reference/spot-files.md says what is in them.

    Args:
        market: counts, and prices unless they come from elsewhere.
        prices: of another file; none: of the same.
        fixed_price: one that never changes; none: those of a file.
        on_demand_price: of a GPU for an hour, in the money of the prices.
        slot_seconds: length of a slot, in the record's time.
        start: see `ReplayedRecord`; none: a third of the record.

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
    begin = slots.num_slots // 3 if start is None else start
    if not 0 <= begin < slots.num_slots:
        raise InputError("start", f"{begin}", f"a slot of the market, 0 to {slots.num_slots - 1}")
    return ReplayedRecord(slots, record, begin)
