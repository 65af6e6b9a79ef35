"""Scenarios of the slots to come, from the quantiles of forecasts.

A slot has five scenarios, each as likely, with the quantiles 0.1, 0.3, ..., 0.9 of its count; each
goes with another quantile of its price, in an order without correlation.
"""

from typing import NamedTuple

import numpy as np

from auctune.spot.arrays import Floats, Ints
from auctune.spot.forecasts.forecast import Forecast
from auctune.spot.forecasts.table import ForecastTable

SCENARIO_LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
# Of the price, beside those of the count.
PAIRED = np.array([1, 4, 2, 0, 3])


class Outlook(NamedTuple):
    """What the slots after one may bring, as likely in each scenario.

    Attributes:
        price: [..., h, i] h + 1 slots ahead, in scenario i.
        available: [..., h, i].
    """

    price: Floats
    available: Ints


def make_outlook(forecast: Forecast | ForecastTable) -> Outlook:
    """The scenarios of one forecast, or of all in a table.

    A forecast without quantiles is one scenario.
    """
    if len(forecast.levels) == 0:
        return Outlook(forecast.price[..., None], forecast.available[..., None])
    price = _at_levels(forecast.levels, forecast.price_quantiles)[..., PAIRED]
    counts = _at_levels(forecast.levels, forecast.available_quantiles.astype(np.float64))
    return Outlook(np.ascontiguousarray(price), np.asarray(np.floor(counts + 0.5), dtype=np.int64))


def _at_levels(levels: Floats, quantiles: Floats) -> Floats:
    """[..., i] between the quantiles at hand, and those at the ends beyond them.

    By elements alone: one forecast and a table of them give the same bits.
    """
    right = np.searchsorted(levels, SCENARIO_LEVELS, side="right")
    lower = np.maximum(right - 1, 0)
    upper = np.minimum(right, len(levels) - 1)
    gap = levels[upper] - levels[lower]
    share = (SCENARIO_LEVELS - levels[lower]) / np.where(gap > 0, gap, 1.0)
    share = np.where(gap > 0, share, 0.0)
    below = quantiles[..., lower]
    return np.asarray(below + share * (quantiles[..., upper] - below))
