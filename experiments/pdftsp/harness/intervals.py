"""Means with 95% confidence intervals, by Student's t."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and where the true one lies with the confidence asked for.

    Attributes:
        mean: of what was seen.
        half_width: of the interval around it; 0 where there is one value alone, which says
            nothing of how others would scatter.
        num_values: how many there were.
    """

    mean: float
    half_width: float
    num_values: int

    @property
    def low(self) -> float:
        """The interval's lower end."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """The interval's upper end."""
        return self.mean + self.half_width


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The mean of independent values, and its confidence interval.

    Raises:
        ValueError: if there are none.
    """
    if not values:
        raise ValueError("no values; expected one at least")
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Interval(mean, 0.0, 1)
    t_quantile = stats.t.ppf((1 + confidence) / 2, len(values) - 1)
    error = statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, float(t_quantile) * error, len(values))
