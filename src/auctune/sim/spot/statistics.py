"""Statistics of spot markets: estimates with intervals, forecast accuracy, goodness of fit."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auctune.domain import InputError
from auctune.numerics.arrays import Floats, Ints
from auctune.sim.spot.generator import autocorrelation
from auctune.spot.forecasts import ForecastTable
from auctune.spot.market import SpotMarket

# How good forecasts are, by how far ahead they look.
#
# Errors of points are mean absolute ones, which the median makes least, and root mean square ones,
# which the mean does: of counts that are none or all these are far apart. Those of quantiles are
# the mean pinball loss over the levels,
#
# max(q (x - f), (q - 1) (x - f)),
#
# doubled, so that it is the absolute error where all quantiles are one point.


@dataclass(frozen=True, slots=True, eq=False)
class Accuracy:
    """Errors of one forecaster.

    Attributes:
        price, available: [h] mean absolute error of the points, h + 1 slots ahead, in units of
            the on-demand price and in GPUs.
        price_pinball, available_pinball: [h] doubled mean pinball loss; that of the points where
            there are no quantiles.
        price_rms, available_rms: [h] root mean square error of the points.
    """

    price: Floats
    available: Floats
    price_pinball: Floats
    available_pinball: Floats
    price_rms: Floats
    available_rms: Floats


def measure_accuracy(
    tables: Sequence[ForecastTable], markets: Sequence[SpotMarket], *, skip: int = 96
) -> Accuracy:
    """Errors over all slots of some markets, each market with the same weight.

    Args:
        tables: the forecasts made in every slot of each market.
        markets: what came.
        skip: slots at each beginning whose forecasts do not count.

    Raises:
        InputError: if a market is too short to tell.
    """
    each = [_errors(table, market, skip) for table, market in zip(tables, markets, strict=True)]
    return Accuracy(*np.mean(each, axis=0))


def _errors(table: ForecastTable, market: SpotMarket, skip: int) -> Floats:
    """[6, h]"""
    horizon = table.price.shape[1]
    made = np.arange(skip, market.num_slots - horizon)
    if not len(made):
        raise InputError(
            "market", f"{market.num_slots} slots", f"more than {skip + horizon}, to compare"
        )
    came = made[:, None] + 1 + np.arange(horizon)
    price, available = market.price[came], market.available[came]
    return np.stack(
        [
            np.abs(table.price[made] - price).mean(axis=0),
            np.abs(table.available[made] - available).mean(axis=0),
            _pinball(table.price[made], table.price_quantiles[made], table.levels, price),
            _pinball(
                table.available[made], table.available_quantiles[made], table.levels, available
            ),
            np.sqrt(np.square(table.price[made] - price).mean(axis=0)),
            np.sqrt(np.square(table.available[made] - available).mean(axis=0)),
        ]
    )


def _pinball(
    points: Floats | Ints, quantiles: Floats | Ints, levels: Floats, came: Floats | Ints
) -> Floats:
    """[h] of points and truth [t, h] and quantiles [t, h, q]."""
    if not len(levels):
        quantiles, levels = points[:, :, None], np.array([0.5])
    short = came[:, :, None] - quantiles
    losses = 2.0 * np.maximum(levels * short, (levels - 1.0) * short)
    return np.asarray(losses.mean(axis=(0, 2)))


# Means and ratios of means with 95% confidence, by the normal law of large samples.
#
# Of pairs (x, y) the ratio r = mean x / mean y has, to first order, the error of the mean of (x -
# r y) / mean y (the delta method). Trials that share slots of a market are not independent: with
# many starts in a short market, intervals are too narrow.

_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, and half the width of its interval.

    Attributes:
        value: the figure.
        half_width: of the 95% interval around it; none from one trial alone.
    """

    value: float
    half_width: float | None

    @property
    def low(self) -> float:
        """The interval's lower end; the value where there is none."""
        return self.value - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        """The interval's upper end; the value where there is none."""
        return self.value + (self.half_width or 0.0)


def mean_of(values: Floats) -> Estimate:
    """Return the mean of [j] values."""
    return Estimate(float(values.mean()), _half_width(values))


def ratio_of(above: Floats, below: Floats) -> Estimate | None:
    """mean above / mean below of [j] pairs; None where the latter is not above 0."""
    mean = float(below.mean())
    if mean <= 0:
        return None
    ratio = float(above.mean()) / mean
    return Estimate(ratio, _half_width((above - ratio * below) / mean))


def _half_width(values: Floats) -> float | None:
    if len(values) < 2:
        return None
    return _Z * float(np.std(values, ddof=1)) / math.sqrt(len(values))


# How like records made-up series are: figures of both, side by side.
#
# A record is one draw itself, and a few weeks of it say little about its slow waves. So the
# figures of what is made up are given over many series as long as the record, as the middle 80% of
# them; a figure of the record within them could well be theirs.

LAGS = {"half an hour": 1, "2 hours": 4, "6 hours": 12, "a day": 48, "3 days": 144}
"""By words, in half-hours."""


@dataclass(frozen=True, slots=True)
class GoodnessOfFit:
    """One figure.

    Attributes:
        figure: what it is.
        record: the record's.
        mean, low, high: of the made-up series: the mean, and the range of the middle 80%.
    """

    figure: str
    record: float
    mean: float
    low: float
    high: float

    @property
    def within(self) -> bool:
        """Return whether the record's value lies in the range."""
        return self.low <= self.record <= self.high


def count_figures(counts: Ints, cap: int) -> dict[str, float]:
    """Figures of counts by half-hour."""
    empty = run_lengths(counts == 0)
    some = run_lengths(counts > 0)
    return {
        "mean": float(counts.mean()),
        "variance": float(counts.var()),
        "share of none": float((counts == 0).mean()),
        "share of all": float((counts == cap).mean()),
        **_correlations(counts.astype(np.float64)),
        "runs of none": float(len(empty)),
        "mean run of none": float(empty.mean()) if len(empty) else 0.0,
        "longest run of none": float(empty.max(initial=0)),
        "mean run of some": float(some.mean()) if len(some) else 0.0,
        "longest run of some": float(some.max(initial=0)),
    }


def price_figures(price: Floats) -> dict[str, float]:
    """Figures of prices by half-hour."""
    moves = np.diff(price)
    moves = moves[moves != 0]
    days = len(price) / 48
    return {
        "mean": float(price.mean()),
        "standard deviation": float(price.std()),
        "least": float(price.min()),
        "most": float(price.max()),
        **_correlations(price),
        "changes a day": len(moves) / days,
        "mean change": float(np.abs(moves).mean()) if len(moves) else 0.0,
    }


def run_lengths(held: NDArray[np.bool_]) -> Ints:
    """Lengths of the runs of true, in their order."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], held, [False]]).astype(np.int8)))
    return np.asarray(edges[1::2] - edges[::2])


def compare(
    record: dict[str, float], figures_of_seed: Callable[[int], dict[str, float]], runs: int = 200
) -> tuple[GoodnessOfFit, ...]:
    """Return the figures of a record beside those of made-up series.

    Args:
        record: figures.
        figures_of_seed: the same of a made-up series as long as the record.
        runs: how many, with seeds from 0 on.
    """
    made = [figures_of_seed(seed) for seed in range(runs)]
    rows = []
    for name, value in record.items():
        values = np.array([figures[name] for figures in made])
        low, high = np.quantile(values, [0.1, 0.9]).tolist()
        rows.append(GoodnessOfFit(name, value, float(values.mean()), low, high))
    return tuple(rows)


def _correlations(values: Floats) -> dict[str, float]:
    if values.min() == values.max():
        return {f"correlation after {words}": 1.0 for words in LAGS}
    found = autocorrelation([values], np.array(list(LAGS.values())))
    return {
        f"correlation after {words}": value
        for words, value in zip(LAGS, found.tolist(), strict=True)
    }
