"""The estimator M4 of Alabdulmohsin, Neyshabur and Zhai, "Revisiting Neural Scaling Laws in
Language and Vision" (NeurIPS 2022): a power law that levels off at both ends.

    (l - l_inf) / (l_0 - l)^alpha = beta s^-c,    0 <= l_inf < min l,  l_0 > max l,  alpha, c >= 0,

fitted by least squares of the logarithms over all units of time seen. For given ends l_inf and l_0
that is linear in (alpha, ln beta, c), on moments; the ends are searched on a grid that is
narrowed around its best point. Solved for s, the law gives the need:
ln s = (ln beta + alpha ln(l_0 - eps) - ln(eps - l_inf)) / c.

It holds the whole history and looks at all of it for each need: O(n).
"""

import math
from dataclasses import dataclass

import numpy as np

from auctune.domain.checks import check_count
from auctune.numerics.arrays import Floats
from auctune.numerics.jit import kernel
from auctune.timeshare.estimators.estimator import (
    SPREAD,
    EstimatorLoop,
    Need,
    crossing_point,
    first_need,
)

# The ends keep so far, relatively, from all losses seen.
_MARGIN = 1e-3
_LOWER, _UPPER = 16, 6
_MOST_UPPER = 4.0
_NEAR = 0.9


@kernel
def moments(x: Floats, z: Floats) -> tuple[float, float]:
    """Sums of z, and of x z with x centred."""
    total, with_x = 0.0, 0.0
    for i in range(len(x)):
        total += z[i]
        with_x += x[i] * z[i]
    return total, with_x


@kernel
def regress(
    xx: float, zx: float, zz: float, wx: float, ww: float, zw: float
) -> tuple[float, float, float]:
    """The best z = alpha w - c x of centred sums: alpha, c >= 0, and the sum of squares left."""
    alpha, c = 0.0, -zx / xx
    det = ww * xx - wx * wx
    if det > 1e-12 * ww * xx:
        alpha = (zw * xx - zx * wx) / det
        c = -(zx * ww - zw * wx) / det
    if alpha <= 0.0:
        alpha, c = 0.0, -zx / xx
    if c <= 0.0:
        alpha, c = (max(0.0, zw / ww) if ww > 0.0 else 0.0), 0.0
    residual = zz + alpha * alpha * ww + c * c * xx - 2.0 * alpha * zw + 2.0 * c * zx
    return alpha, c, max(0.0, residual - 2.0 * alpha * c * wx)


@kernel
def fit_ends(
    x: Floats, y: Floats, lower: Floats, upper: Floats, logs: Floats, best: Floats
) -> None:
    """Try all pairs of ends on a grid.

    Args:
        x: [i] logarithms of samples, centred.
        y: [i] losses.
        lower, upper: ends to try.
        logs: [lower + upper, i] scratch.
        best: [7] sum of squares, l_inf, l_0, alpha, c, mean of ln(l - l_inf) and of ln(l_0 - l);
            written where a pair is better.
    """
    n, num_lower = len(x), len(lower)
    sums = np.empty((num_lower + len(upper), 2))
    squares = np.empty(num_lower + len(upper))
    xx = moments(x, x)[1]
    for j in range(num_lower + len(upper)):
        for i in range(n):
            rest = y[i] - lower[j] if j < num_lower else upper[j - num_lower] - y[i]
            logs[j, i] = math.log(rest)
        sums[j] = moments(x, logs[j, :n])
        squares[j] = moments(logs[j, :n], logs[j, :n])[1] - sums[j, 0] ** 2 / n
    for j in range(num_lower):
        for h in range(num_lower, num_lower + len(upper)):
            zw = moments(logs[j, :n], logs[h, :n])[1] - sums[j, 0] * sums[h, 0] / n
            alpha, c, residual = regress(xx, sums[j, 1], squares[j], sums[h, 1], squares[h], zw)
            if residual < best[0]:
                best[0], best[1], best[2] = residual, lower[j], upper[h - num_lower]
                best[3], best[4] = alpha, c
                best[5], best[6] = sums[j, 0] / n, sums[h, 0] / n


@kernel
def narrow(x: Floats, y: Floats, low: float, rounds: int, logs: Floats, best: Floats) -> None:
    """Search the ends, the lower one from `low` up; arguments as of `fit_ends`."""
    floor, ceiling = y.min() * (1.0 - _MARGIN), y.max() * (1.0 + _MARGIN)
    high, left, right = floor, 0.0, math.log(_MOST_UPPER)
    best[0] = np.inf
    for _ in range(rounds):
        # Towards the least loss the law changes fastest.
        lower = high - (high - low) * np.linspace(1.0, 0.0, _LOWER) ** 2
        upper = ceiling * np.exp(np.linspace(left, right, _UPPER))
        fit_ends(x, y, lower, upper, logs, best)
        step = math.sqrt(max(0.0, (high - best[1]) * (high - low))) + (high - low) / _LOWER
        width, spread = 2.0 * step / (_LOWER - 1), (right - left) / (_UPPER - 1)
        at = math.log(best[2] / ceiling)
        low, high = max(0.0, best[1] - width), min(floor, best[1] + width)
        left, right = max(0.0, at - spread), at + spread


@kernel
def fit(samples: Floats, y: Floats, rounds: int, best: Floats) -> float:
    """Return the best law; returns the mean of ln s.

    The sum of squares is small where l_inf is far below all losses, as their logarithms then hardly
    differ, and has a narrow valley near the least of them: both are searched.
    """
    x = np.log(samples)
    centre = x.mean()
    x -= centre
    logs = np.empty((_LOWER + _UPPER, len(x)))
    near = np.empty(len(best))
    narrow(x, y, 0.0, rounds, logs, best)
    narrow(x, y, _NEAR * y.min(), rounds, logs, near)
    if near[0] < best[0]:
        best[:] = near
    return float(centre)


@dataclass(frozen=True, slots=True)
class M4:
    """M4.

    Attributes:
        rounds: how often the grid of ends is laid, each one narrower.
    """

    rounds: int = 3

    def __post_init__(self) -> None:
        check_count(self.rounds, "rounds", 1)

    @property
    def name(self) -> str:
        return "m4"

    def start_bank(self, num_threads: int) -> EstimatorLoop:
        return EstimatorLoop([M4Run(self) for _ in range(num_threads)])


class M4Run:
    """M4 at work on one thread."""

    def __init__(self, params: M4) -> None:
        self._params = params
        self._samples: list[float] = []
        self._losses: list[float] = []
        self._last = 0.0, 0.0

    def observe(self, samples: float, loss: float) -> None:
        self._last = samples, loss
        if 0.0 < loss < math.inf:
            self._samples.append(samples)
            self._losses.append(loss)

    def need(self, threshold: float) -> Need:
        samples, loss = self._last
        seen = first_need(samples, loss, threshold)
        if seen is not None:
            return seen
        if len(self._losses) < 3:
            return Need(math.inf, 1.0, math.inf)
        best = np.empty(7)
        centre = fit(np.array(self._samples), np.array(self._losses), self._params.rounds, best)
        residual, lower, upper, alpha, c, mean_z, mean_w = best.tolist()
        if c <= 0.0 or threshold <= lower:
            return Need(math.inf, 1.0, math.inf)
        if threshold >= upper:
            return Need(1.0, 1.0, 1.0)
        # By how much ln of the law's right side must still fall from its mean.
        drop = mean_z - math.log(threshold - lower) - alpha * (mean_w - math.log(upper - threshold))
        sd = SPREAD * math.sqrt(residual / max(len(self._losses) - 5, 1))
        ends = [crossing_point(centre + (drop + by) / c, samples) for by in (0.0, -sd, sd)]
        return Need(ends[0], min(ends), max(ends))
