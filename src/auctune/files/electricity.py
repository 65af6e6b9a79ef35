"""Electricity: prices by time, and what a slot at full load costs at them.

A node type that draws P kilowatts at full load, in a slot of S seconds at a price of p USD per MWh,

    costs P * S/3600 * p/1000 USD.

Day-ahead prices hold for an hour or a quarter of one, and fall below zero at times. A slot's price
is their mean over its time, wherever hours and slots begin. Mechanisms know no cost below zero, so
`slot_costs` gives two: as the mechanism sees it, and as it really is.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auctune.domain import InputError
from auctune.files.csv_table import read_table

FloatArray = NDArray[np.float64]

DAY_SECONDS = 86_400.0
COLUMNS = ("t_s", "price_usd_per_mwh")


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


class RepeatedPrices:
    """A series that goes on as it began: the price at any unix time.

    A moment's price is that of the series a whole number of its spans earlier or later. With
    times in unix seconds its own days have their own prices; with times from 0 on it is a tariff.

    Args:
        series: of whole days, from a midnight UTC on.

    Raises:
        InputError: if it is not.
    """

    def __init__(self, series: PriceSeries) -> None:
        first, end = float(series.t_s[0]), float(2 * series.t_s[-1] - series.t_s[-2])
        if first % DAY_SECONDS or (end - first) % DAY_SECONDS:
            found = f"runs from {first:.0f} to {end:.0f}"
            raise InputError("t_s", found, "whole days, in seconds from a midnight UTC on")
        self._series = series
        self._first, self._span = first, end - first
        self._whole = float(series.mean(np.array([first, end]))[0]) * self._span

    def mean(self, begin: float, end: float) -> float:
        """The mean price between two moments in unix time."""
        return (self._spent(end) - self._spent(begin)) / (end - begin)

    def _spent(self, time: float) -> float:
        """The price summed over the seconds from the series' first one to a moment."""
        spans, within = divmod(time - self._first, self._span)
        part = 0.0
        if within > 0:
            edges = np.array([self._first, self._first + within])
            part = float(self._series.mean(edges)[0]) * within
        return spans * self._whole + part


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
