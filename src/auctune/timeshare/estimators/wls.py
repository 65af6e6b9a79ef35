"""Weighted least squares with forgetting: the paper's estimator; LARA, section 3.1.

Loss model l(s) = a s^-b, on logarithms ln l = [ln s, 1] theta theta = [-b, ln a]. After n units

    theta_n = argmin  sum_i gamma^(n - i) ([ln s_i, 1] theta - ln l_i)^2
                      + gamma^n lambda |theta|^2,

which is what the recursion (3.5) computes from V_0 = lambda I and theta_0 = 0, in O(1) a step. Need
(3.6): S = ceil(exp((ln a - ln eps) / b) - s_n).

The recursion is kept in centred moments. (3.5) itself forms the inverse of V, whose condition is
that of (ln s)^2 over the variance of ln s in a window of some ten units: 1e8 and more late in
training, where it loses all digits. With W the sum of weights, means x, y and centred sums
Sxx, Sxy, and e = gamma^n lambda, Cramer's rule gives without any cancellation

    det = (Sxx + e) (W + e) + e W x^2
    theta = [ (W + e) Sxy + e W x y,  (Sxx + e) W y - W x Sxy ] / det.
"""

import math
from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.numerics.arrays import Bools, Floats
from auctune.numerics.jit import kernel
from auctune.timeshare.estimators.estimator import SPREAD, Needs, crossing_point

# Columns of a thread's state.
SAMPLES, LOSS, WEIGHT, WEIGHT_SQUARES, MEAN_X, MEAN_Y, SXX, SXY, SYY, START = range(10)
WIDTH = 10


@kernel
def observe(state: Floats, gamma: float, samples: float, loss: float) -> None:
    """One unit of time of one thread.

    Args:
        state: [10] of the thread; written.
        gamma: what is left of a weight after another unit.
        samples, loss: batches at the unit's end, and mean loss over it.
    """
    state[SAMPLES], state[LOSS] = samples, loss
    if not (loss > 0.0 and loss < np.inf):
        return
    x, y = math.log(samples), math.log(loss)
    old = gamma * state[WEIGHT]
    weight = old + 1.0
    dx, dy, kept = x - state[MEAN_X], y - state[MEAN_Y], old / weight
    state[MEAN_X] += dx / weight
    state[MEAN_Y] += dy / weight
    state[SXX] = gamma * state[SXX] + kept * dx * dx
    state[SXY] = gamma * state[SXY] + kept * dx * dy
    state[SYY] = gamma * state[SYY] + kept * dy * dy
    state[WEIGHT] = weight
    state[WEIGHT_SQUARES] = gamma * gamma * state[WEIGHT_SQUARES] + 1.0
    state[START] *= gamma


@kernel
def solve(state: Floats) -> tuple[float, float]:
    """theta: slope and intercept of ln l over ln s."""
    weight, x, y, e = state[WEIGHT], state[MEAN_X], state[MEAN_Y], state[START]
    det = (state[SXX] + e) * (weight + e) + e * weight * x * x
    if det <= 0.0:
        return 0.0, 0.0
    slope = ((weight + e) * state[SXY] + e * weight * x * y) / det
    intercept = ((state[SXX] + e) * weight * y - weight * x * state[SXY]) / det
    return slope, intercept


@kernel
def predict(state: Floats, threshold: float) -> tuple[float, float, float]:
    """Return the need of one thread with its quantiles."""
    loss, samples, weight = state[LOSS], state[SAMPLES], state[WEIGHT]
    if samples == 0.0:
        return np.inf, 1.0, np.inf
    if not abs(loss) < np.inf:
        return np.inf, np.inf, np.inf
    if loss <= threshold:
        return 0.0, 0.0, 0.0
    slope, intercept = solve(state)
    level = math.log(threshold)
    need = np.inf
    if slope < 0.0:
        need = crossing_point((level - intercept) / slope, samples)
    spread = max(0.0, state[SYY] - 2.0 * slope * state[SXY] + slope * slope * state[SXX])
    # As many observations as have the same variance of their mean, two of them used up.
    effective = weight * weight / state[WEIGHT_SQUARES]
    variance = spread / weight * effective / max(effective - 2.0, 0.5)
    of_mean = SPREAD * math.sqrt(variance / effective)
    of_slope = np.inf
    if state[SXX] > 0.0:
        of_slope = SPREAD * math.sqrt(variance * weight / effective / state[SXX])
    drop = slope * state[MEAN_X] + intercept - level
    low, high = np.inf, np.inf
    if of_slope - slope > 0.0:
        ahead = max(0.0, drop - of_mean) / (of_slope - slope)
        low = crossing_point(state[MEAN_X] + ahead, samples)
    if -slope - of_slope > 0.0:
        high = crossing_point(state[MEAN_X] + (drop + of_mean) / (-slope - of_slope), samples)
    return need, min(low, need), max(high, need)


@kernel
def observe_all(states: Floats, gamma: float, samples: Floats, loss: Floats, fresh: Bools) -> None:
    """One unit of time of all threads: [k, 10], then [k] each."""
    for k in range(len(states)):
        if fresh[k]:
            observe(states[k], gamma, samples[k], loss[k])


@kernel
def predict_all(
    states: Floats, thresholds: Floats, need: Floats, low: Floats, high: Floats
) -> None:
    """Needs of all threads; the last three written."""
    for k in range(len(states)):
        need[k], low[k], high[k] = predict(states[k], thresholds[k])


def fresh_states(regularization: float, num_threads: int) -> Floats:
    """Return [k, 10], states of threads that have learned nothing."""
    states = np.zeros((num_threads, WIDTH))
    states[:, START] = regularization
    return states


@dataclass(frozen=True, slots=True)
class Wls:
    """The paper's estimator.

    Attributes:
        gamma: weight of a unit of time beside the next one's, in (0, 1].
        regularization: lambda > 0, of V_0 = lambda I.
    """

    gamma: float = 0.9
    regularization: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 < self.gamma <= 1:
            raise InputError("gamma", f"{self.gamma!r}", "a number > 0 and <= 1")
        check_positive(self.regularization, "regularization", "a number > 0")

    @property
    def name(self) -> str:
        return "wls"

    def start_bank(self, num_threads: int) -> "WlsBank":
        return WlsBank(self, num_threads)


@dataclass(frozen=True, slots=True)
class Ls:
    """Least squares without forgetting: `Wls` with gamma = 1.

    Attributes:
        regularization: lambda > 0.
    """

    regularization: float = 1e-3

    def __post_init__(self) -> None:
        check_positive(self.regularization, "regularization", "a number > 0")

    @property
    def name(self) -> str:
        return "ls"

    def start_bank(self, num_threads: int) -> "WlsBank":
        return WlsBank(Wls(1.0, self.regularization), num_threads)


class WlsBank:
    """Least squares at work on all threads of a bundle."""

    def __init__(self, params: Wls, num_threads: int) -> None:
        self._gamma = params.gamma
        self._states = fresh_states(params.regularization, num_threads)
        self._needs = Needs(*(np.empty(num_threads) for _ in range(3)))

    def observe(self, samples: Floats, loss: Floats, fresh: Bools) -> None:
        observe_all(self._states, self._gamma, samples, loss, fresh)

    def needs(self, thresholds: Floats) -> Needs:
        predict_all(self._states, thresholds, *self._needs)
        return self._needs

    @property
    def theta(self) -> Floats:
        """[k, 2] slope and intercept of ln l over ln s."""
        return np.array([solve(state) for state in self._states])
