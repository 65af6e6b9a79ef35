"""Means with 95% confidence intervals, by Student's t.

The share A of the t distribution with n degrees of freedom within -t and t is a finite sum
(Abramowitz and Stegun, 26.7.3 and 26.7.4): with theta = atan(t / sqrt(n)), s and c its sine and
cosine,

    n odd:  A = 2/pi * (theta + s * (c + 2/3 c^3 + ... + 2*4*...*(n-3) / (3*5*...*(n-2)) c^(n-2)))
    n even: A = s * (1 + 1/2 c^2 + ... + 1*3*...*(n-3) / (2*4*...*(n-2)) c^(n-2))
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

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
    error = statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, t_quantile(confidence, len(values) - 1) * error, len(values))


def t_quantile(confidence: float, degrees: int) -> float:
    """The t within which, and its negative, lies a share `confidence` of the distribution."""
    high = 1.0
    while _share_within(high, degrees) < confidence:
        high *= 2
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        if _share_within(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return high


def _share_within(t: float, degrees: int) -> float:
    theta = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return 2 / math.pi * (theta + sine * total) if odd else sine * total
