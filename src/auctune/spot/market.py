"""What can be rented: spot prices and counts by slot, and the price of on-demand GPUs."""

from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.numerics.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class SpotMarket:
    """A spot market over some slots; Kong et al. (arXiv 2512.20967), section III-B.

    Attributes:
        price: [t] p_t, of a spot GPU for a slot, in units of the on-demand price.
        available: [t] A_t, spot GPUs that can be held.
        on_demand_price: p_o of a GPU for a slot, in the same units.
        slot_seconds: length of a slot.
    """

    price: Floats
    available: Ints
    on_demand_price: float = 1.0
    slot_seconds: float = 1800.0

    def __post_init__(self) -> None:
        price = np.array(self.price, dtype=np.float64)
        available = np.asarray(self.available)
        if price.ndim != 1 or available.shape != price.shape:
            raise InputError(
                "available",
                f"shape {available.shape} beside {price.shape} of price",
                "one count and one price for each slot",
            )
        wrong = np.flatnonzero(~(np.isfinite(price) & (price >= 0)))
        if len(wrong):
            raise InputError(f"price[{wrong[0]}]", f"{price[wrong[0]]}", "a number >= 0")
        wrong = np.flatnonzero(~((available >= 0) & (available == np.floor(available))))
        if len(wrong):
            raise InputError(
                f"available[{wrong[0]}]", f"{available[wrong[0]]}", "a whole number >= 0"
            )
        check_positive(self.on_demand_price, "on_demand_price", "a number > 0")
        check_positive(self.slot_seconds, "slot_seconds", "a number > 0")
        counts = np.array(available, dtype=np.int64)
        for array in (price, counts):
            array.flags.writeable = False
        object.__setattr__(self, "price", price)
        object.__setattr__(self, "available", counts)

    @property
    def num_slots(self) -> int:
        return len(self.price)

    def between(self, first: int, end: int) -> "SpotMarket":
        """Return the slots first..end - 1 as a market of their own.

        Raises:
            InputError: if the market has not all of them.
        """
        if not 0 <= first <= end <= self.num_slots:
            raise InputError(
                "market", f"{self.num_slots} slots", f"slots {first} to {end - 1}, for the job"
            )
        return SpotMarket(
            self.price[first:end],
            self.available[first:end],
            self.on_demand_price,
            self.slot_seconds,
        )

    def until(self, slot: int) -> "SpotMarket":
        """Return what has been seen when `slot` begins: all slots up to and with it."""
        return self.between(0, slot + 1)
