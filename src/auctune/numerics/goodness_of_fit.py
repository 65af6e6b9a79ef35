"""How like what was observed made-up series are: figures of both, side by side.

What was observed is one draw itself, and a few weeks of it say little about its slow waves. So the
figures of what is made up are given over many series as long as it, as the middle 80% of them; a
figure of the observed series within them could well be theirs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from auctune.numerics.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class GoodnessOfFit:
    """One figure.

    Attributes:
        figure: what it is.
        observed: its value.
        mean, low, high: of the made-up series: the mean, and the range of the middle 80%.
    """

    figure: str
    observed: float
    mean: float
    low: float
    high: float

    @property
    def within(self) -> bool:
        """Return whether the observed value lies in the range."""
        return self.low <= self.observed <= self.high


def compare(
    observed: Mapping[str, float], made: Sequence[Mapping[str, float]]
) -> tuple[GoodnessOfFit, ...]:
    """Return the figures of what was observed beside those of made-up series, by name."""
    rows = []
    for name, value in observed.items():
        values = np.array([figures[name] for figures in made])
        low, high = np.quantile(values, (0.1, 0.9)).tolist()
        rows.append(GoodnessOfFit(name, value, float(values.mean()), low, high))
    return tuple(rows)


def autocorrelation(series: Sequence[Floats], lags: Ints) -> Floats:
    """[k] of series about their own means, each pair of slots with the same weight.

    0 where all values of each series are the same.
    """
    centred = [values - values.mean() for values in series]
    variance = float(np.concatenate(centred).var())
    if variance == 0:
        return np.zeros(len(lags))
    products = [
        np.concatenate([values[: len(values) - lag] * values[lag:] for values in centred])
        for lag in lags.tolist()
    ]
    return np.array([float(pairs.mean()) for pairs in products]) / variance
