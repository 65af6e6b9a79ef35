"""Electricity: prices by time, and what a slot at full load costs at them.

A node type that draws P kilowatts at full load, in a slot of S seconds at a price of p USD per MWh,

    costs P * S/3600 * p/1000 USD.

Day-ahead prices hold for an hour or a quarter of one, and fall below zero at times. A slot's price
is their mean over its time, wherever hours and slots begin. Mechanisms know no cost below zero, so
`slot_costs` gives two: as the mechanism sees it, and as it really is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from auctune.domain import InputError
from auctune.sim.csv_table import read_table

FloatArray = NDArray[np.float64]

DAY_SECONDS = 86_400.0
COLUMNS = ("t_s", "price_usd_per_mwh")


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
        """The price at the start of each slot."""
        day = 2 * np.pi * np.arange(slots) * slot_seconds / DAY_SECONDS
        curve: FloatArray = self.mean * (1 - 0.4 * np.cos(day - 2 * np.pi * 4 / 24))
        return curve


@dataclass(frozen=True, slots=True, eq=False)
class PriceSeries:
    """Prices of a market; each holds until the next one's time, the last as long as the one before.

    Attributes:
        t_s: [n] seconds from a midnight, strictly ascending; two at least.
        usd_per_mwh: [n]
    """

    t_s: FloatArray
    usd_per_mwh: FloatArray

    def mean(self, edges: FloatArray) -> FloatArray:
        """The mean price between neighbouring edges: [n + 1] seconds, ascending, to [n].

        Raises:
            InputError: if they reach beyond the series.
        """
        end = 2 * self.t_s[-1] - self.t_s[-2]
        if edges[0] < self.t_s[0] or edges[-1] > end + 1e-6:
            raise InputError(
                "energy_start_day",
                f"days {edges[0] / DAY_SECONDS:g} to {edges[-1] / DAY_SECONDS:g} are asked for",
                f"days within {self.t_s[0] / DAY_SECONDS:g} to {end / DAY_SECONDS:g}",
            )
        times = np.append(self.t_s, end)
        spent = np.concatenate([[0.0], np.cumsum(self.usd_per_mwh * np.diff(times))])
        means: FloatArray = np.diff(np.interp(edges, times, spent)) / np.diff(edges)
        return means


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
        """The mean price of each slot.

        Raises:
            InputError: if the horizon reaches beyond the series.
        """
        edges = self.start_day * DAY_SECONDS + slot_seconds * np.arange(slots + 1, dtype=np.float64)
        return self.series.mean(edges)


class PricedEnergy:
    """Energy costs of a market that never ends, at prices that are known: an `EnergyForecast`.

    Args:
        prices: from the market's slot 0 on.
        power_kw: at full load, by node type.
        slot_seconds: length of a slot.
    """

    def __init__(
        self, prices: DayAhead, power_kw: Mapping[str, float], slot_seconds: float
    ) -> None:
        self._prices = prices
        self._power_kw = power_kw
        self._slot_seconds = slot_seconds

    def __call__(self, node_type: str, slot: int) -> float:
        """USD for the slot at full load, never below zero.

        Raises:
            InputError: if the slot lies beyond the prices.
        """
        start = self._prices.start_day * DAY_SECONDS + slot * self._slot_seconds
        price = self._prices.series.mean(np.array([start, start + self._slot_seconds]))
        return slot_costs(self._power_kw[node_type], price, self._slot_seconds).seen[0]


def read_prices(path: Path) -> PriceSeries:
    """Prices from a CSV file with the columns t_s and price_usd_per_mwh, gzipped or not.

    Raises:
        InputError: naming file, line and field.
    """
    table = read_table(path, COLUMNS)
    seconds = table.number("t_s", "seconds >= 0", 0)
    prices = table.number("price_usd_per_mwh", "USD per MWh", -1e9)
    if len(seconds) < 2:
        raise InputError(str(path), f"has {len(seconds)} prices", "two at least")
    times = seconds.to_numpy()
    (back,) = np.nonzero(np.diff(times) <= 0)
    if len(back):
        line = table.frame["line"][int(back[0]) + 1]
        raise InputError(f"{path}: line {line}: t_s", "is not after the line before", "ascending")
    return PriceSeries(times, prices.to_numpy())


@dataclass(frozen=True, slots=True)
class SlotCosts:
    """USD for each slot at full load: as mechanisms see it, never below zero, and as it is."""

    seen: tuple[float, ...]
    real: tuple[float, ...]


def slot_costs(power_kw: float, prices: FloatArray, slot_seconds: float) -> SlotCosts:
    """What each slot costs a node at full load.

    Args:
        power_kw: that it draws.
        prices: [slots] USD per MWh.
        slot_seconds: length of a slot.
    """
    hours = slot_seconds / 3600
    real = power_kw * hours * prices / 1000
    return SlotCosts(tuple(np.maximum(real, 0.0).tolist()), tuple(real.tolist()))
