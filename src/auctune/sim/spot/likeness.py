"""How like records made-up series are: figures of both, side by side.

A record is one draw itself, and a few weeks of it say little about its slow waves. So the figures
of what is made up are given over many series as long as the record, as the middle 80% of them; a
figure of the record within them could well be theirs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auctune.numerics.arrays import Floats, Ints
from auctune.sim.spot.generator_fit import autocorrelation

LAGS = {"half an hour": 1, "2 hours": 4, "6 hours": 12, "a day": 48, "3 days": 144}
"""By words, in half-hours."""


@dataclass(frozen=True, slots=True)
class SpotLikeness:
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
        """Whether the record's lies in that range."""
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
) -> tuple[SpotLikeness, ...]:
    """The figures of a record beside those of made-up series.

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
        rows.append(SpotLikeness(name, value, float(values.mean()), low, high))
    return tuple(rows)


def _correlations(values: Floats) -> dict[str, float]:
    if values.min() == values.max():
        return {f"correlation after {words}": 1.0 for words in LAGS}
    found = autocorrelation([values], np.array(list(LAGS.values())))
    return {
        f"correlation after {words}": value
        for words, value in zip(LAGS, found.tolist(), strict=True)
    }
