"""Electricity prices of a market that starts at midnight: synthetic, or of a day-ahead market.

What a slot costs at them is `auctune.files.electricity`.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from auctune.files.electricity import DAY_SECONDS, FloatArray, PriceSeries


class Electricity(Protocol):
    """Knows the price in each slot of a horizon that starts at midnight."""

    def prices(self, slots: int, slot_seconds: float) -> FloatArray:
        """USD per MWh, the mean of each slot: [slots]. May be below zero."""
        ...


@dataclass(frozen=True, slots=True)
class DailySwing:
    """A made-up price that swings once a day by 40%: cheapest at 4 at night, dearest at 16.

    Attributes:
        mean: USD per MWh.
    """

    mean: float = 80.0

    def prices(self, slots: int, slot_seconds: float) -> FloatArray:
        day = 2 * np.pi * np.arange(slots) * slot_seconds / DAY_SECONDS
        curve: FloatArray = self.mean * (1 - 0.4 * np.cos(day - 2 * np.pi * 4 / 24))
        return curve


@dataclass(frozen=True, slots=True, eq=False)
class DayAhead:
    """Prices of a market from some day on.

    Attributes:
        series: the prices.
        start_day: days from the series' 0; whole ones keep the hour of the day.
    """

    series: PriceSeries
    start_day: float = 0.0

    def prices(self, slots: int, slot_seconds: float) -> FloatArray:
        """Return the mean price of each slot.

        Raises:
            InputError: if the horizon reaches beyond the series.
        """
        edges = self.start_day * DAY_SECONDS + slot_seconds * np.arange(slots + 1, dtype=np.float64)
        return self.series.mean(edges)
