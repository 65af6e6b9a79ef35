"""A market as it was, by the moment: what the `market` provider replays."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.numerics.arrays import Floats, Ints
from auctune.spot.market import SpotMarket


@dataclass(frozen=True, slots=True, eq=False)
class MarketTrace:
    """Price and number of spot instances from given moments on.

    Finer than a slot where the record is: an instance is then taken away in the middle of a slot,
    as it was.

    Attributes:
        times: [k] slots since the job began, rising, the first one 0; each entry holds until the
            next, the last one for one slot at most.
        price: [k] of a spot instance for a slot.
        available: [k] spot instances.
        on_demand_price: of an on-demand instance for a slot, in the same unit.
    """

    times: Floats
    price: Floats
    available: Ints
    on_demand_price: float = 1.0

    def __post_init__(self) -> None:
        # Price, counts and shapes are what they are in a market of slots.
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
    def of_slots(cls, market: SpotMarket) -> "MarketTrace":
        """A market of which nothing is known within slots."""
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
        """A record by seconds.

        Args:
            seconds: [k] rising.
            price: [k].
            available: [k].
            slot_seconds: length of a slot, in the record's time.
            start: when the job begins, not before the record does.
            on_demand_price: in the unit of `price`.

        Raises:
            InputError: if the record begins later, or is wrong in itself.
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
        """Whole slots that it reaches."""
        return int(np.floor(self.times[-1])) + 1

    @property
    def digest(self) -> str:
        """SHA-256 over all of it."""
        total = hashlib.sha256(repr(self.on_demand_price).encode())
        for array in (self.times, self.price, self.available):
            total.update(array.tobytes())
        return total.hexdigest()

    def at(self, now: float) -> tuple[float, int]:
        """Price and number of spot instances at a moment."""
        index = self._index(now)
        return float(self.price[index]), int(self.available[index])

    def least_available(self, since: float, now: float) -> int:
        """The fewest spot instances that there were from `since` to `now`, both included."""
        return int(self.available[self._index(since) : self._index(now) + 1].min())

    def _index(self, now: float) -> int:
        return max(0, int(np.searchsorted(self.times, now, side="right")) - 1)
