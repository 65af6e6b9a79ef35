"""Means and ratios of means with 95% confidence, by the normal law of large samples.

Of pairs (x, y) the ratio r = mean x / mean y has, to first order, the error of the mean of
(x - r y) / mean y (the delta method). Trials that share slots of a market are not independent: with
many starts in a short market, intervals are too narrow.
"""

import math
from dataclasses import dataclass

import numpy as np

from auctune.numerics.arrays import Floats

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
    """The mean of [j] values."""
    return Estimate(float(values.mean()), _half_width(values))


def ratio_of(above: Floats, below: Floats) -> Estimate | None:
    """mean above / mean below of [j] pairs; none where the latter is not above 0."""
    mean = float(below.mean())
    if mean <= 0:
        return None
    ratio = float(above.mean()) / mean
    return Estimate(ratio, _half_width((above - ratio * below) / mean))


def _half_width(values: Floats) -> float | None:
    if len(values) < 2:
        return None
    return _Z * float(np.std(values, ddof=1)) / math.sqrt(len(values))
