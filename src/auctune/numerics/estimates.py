"""Means and ratios of means with confidence intervals, by Student's t.

Of pairs (x, y) the ratio r = mean x / mean y has, to first order, the error of the mean of
(x - r y) / mean y (the delta method). Values are taken to be independent: trials that share slots
of a market are not, and with many starts in a short market intervals are too narrow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from auctune.numerics.arrays import Floats


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, and half the width of its interval.

    Attributes:
        value: the figure.
        half_width: of the interval around it; none from one value alone.
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

    def text(self, form: str, factor: float = 1.0) -> str:
        """Return both as "value ±half", each times `factor` in a form such as `+.1f` or `.1%`."""
        value = f"{factor * self.value:{form}}"
        if self.half_width is None:
            return value
        half = f"{abs(factor) * self.half_width:{form.removeprefix('+')}}"
        return f"{value} ±{half.removesuffix('%')}"


def mean_of(values: Floats | Sequence[float], confidence: float = 0.95) -> Estimate:
    """Return the mean of [j] values.

    Raises:
        ValueError: if there are none.
    """
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        raise ValueError("no values; expected one at least")
    return Estimate(float(values.mean()), _half_width(values, confidence))


def ratio_of(above: Floats, below: Floats, confidence: float = 0.95) -> Estimate | None:
    """mean above / mean below of [j] pairs; None where the latter is not above 0."""
    mean = float(below.mean())
    if mean <= 0:
        return None
    ratio = float(above.mean()) / mean
    return Estimate(ratio, _half_width((above - ratio * below) / mean, confidence))


def _half_width(values: Floats, confidence: float) -> float | None:
    if len(values) < 2:
        return None
    quantile = float(stdtrit(len(values) - 1, 0.5 + confidence / 2))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))
