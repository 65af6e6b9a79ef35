"""Forecasters without a model: perfect foresight, and the last season again."""

from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Floats, Ints
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


# Seasonal naive: what was there at the same time of the last day.
#
# Quantiles are those of what the same rule got wrong in the past, around the point forecast; with
# less than a season of past the last slot stands for all to come.


@dataclass(frozen=True, slots=True)
class SeasonalNaive:
    """The last season again.

    Attributes:
        season: its length in slots: 48 half-hours are a day.
        cap: the most spot GPUs there can be; None: no bound.
    """

    season: int = 48
    cap: int | None = None

    def __post_init__(self) -> None:
        if self.season < 1:
            raise InputError("season", f"{self.season!r}", "a whole number of slots >= 1")
        if self.cap is not None and self.cap < 0:
            raise InputError("cap", f"{self.cap!r}", "a whole number >= 0")

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        season = self.season if past.num_slots >= self.season else 1
        ahead = np.arange(num_slots) % season
        at = past.num_slots - season + ahead
        price, available = past.price[at], past.available[at]
        return Forecast(
            price,
            available,
            np.array(LEVELS),
            np.maximum(_around(past.price, price, season), 0.0),
            whole(_around(past.available.astype(np.float64), available, season), self.cap),
        )


def _around(seen: Floats, point: Floats | Ints, season: int) -> Floats:
    """[h, q] the point and the quantiles of the errors that the rule made."""
    errors = seen[season:] - seen[:-season]
    spread = np.quantile(errors, LEVELS) if len(errors) else np.zeros(len(LEVELS))
    return np.asarray(point[:, None] + spread[None, :], dtype=np.float64)


def whole(counts: Floats, cap: int | None) -> Ints:
    """Counts of GPUs: rounded half up, within 0 and the cap."""
    return np.clip(np.floor(counts + 0.5), 0, cap).astype(np.int64)
