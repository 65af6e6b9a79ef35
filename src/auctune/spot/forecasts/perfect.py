"""Perfect foresight."""

from dataclasses import dataclass

import numpy as np

from auctune.spot.arrays import Floats, Ints
from auctune.spot.forecasts.forecast import Forecast
from auctune.spot.market import SpotMarket

# Of quantiles that all say the same.
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True, slots=True, eq=False)
class PerfectForecaster:
    """Knows the whole market; every quantile is the truth.

    Attributes:
        market: the whole series, of which each past given is the beginning.
    """

    market: SpotMarket

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        """What will be; the last slot goes on where the series ends."""
        price, available = what_comes(self.market, past.num_slots, num_slots)
        shape = (num_slots, len(LEVELS))
        return Forecast(
            price,
            available,
            np.array(LEVELS),
            np.broadcast_to(price[:, None], shape),
            np.broadcast_to(available[:, None], shape),
        )


def what_comes(market: SpotMarket, first: int, num_slots: int) -> tuple[Floats, Ints]:
    """Price and count of `num_slots` slots from `first` on; the last one goes on at the end."""
    slots = np.minimum(np.arange(first, first + num_slots), market.num_slots - 1)
    return market.price[slots], market.available[slots]
