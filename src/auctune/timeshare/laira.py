"""LaiRA: look-ahead and immediate resource allocation.

Wang, Liu and Zhou, "CoRE-Learning with Look-Ahead and Immediate Resource Allocation" (AAAI 2026).
The pool works in slices of some units of time, each for one thread.

1. Look-ahead. A Kalman filter follows theta = [-b, ln a] of the law ln l = [ln s, 1] theta with its
   velocity and acceleration, a step for each unit of time that the thread learned in. Carried
   forward by all the time left with the whole pool, it says which loss is in reach; a thread whose
   threshold lies lower is no candidate for this slice. It may be one again later.
2. Choice. The slice goes to the candidate with the greatest ratio of the predicted to the required
   rate at which ln l falls over ln s. The predicted one is by discounted ridge least squares, at a
   lower confidence bound of the loss. Nothing is explored for its own sake.
3. Length. M units for the first three slices with a prediction, then

       M = M - K_p (e1 - e2) - K_d (e1 - 2 e2 + e3),

   e1, e2, e3 the errors of ln l that were predicted for the ends of the last slices, the newest
   first: slices grow while predictions get better, as the paper's text says.

The paper prints none of the constants: they are parameters here. A thread reports its loss once in
a unit of time, of N batches. With no candidate, all threads that may learn are candidates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_count, check_finite, check_positive
from auctune.numerics.arrays import Bools, Floats
from auctune.numerics.jit import kernel
from auctune.timeshare.allocator import Observation, Shares
from auctune.timeshare.estimators import wls
from auctune.timeshare.estimators.wls import LOSS, MEAN_X, SAMPLES, START, SXX, WEIGHT
from auctune.timeshare.planner import is_active
from auctune.timeshare.thread import LearningThread, bundle_arrays

# Variances of theta before anything is seen.
_PRIOR = 10.0


@kernel
def kalman_step(mean: Floats, cov: Floats, x: float, y: float, noise: float, drift: float) -> None:
    """Predict by a step, then learn an observation y = x theta_0 + theta_1.

    Args:
        mean: [6] theta, its velocity and acceleration, two of each; written.
        cov: [6, 6] of them; written.
        x, y: ln s and ln l.
        noise, drift: variances of y, and of the acceleration's change in a step.
    """
    # F = [[I, I, I / 2], [0, I, I], [0, 0, I]]: rows, then columns.
    for i in range(2):
        mean[i] += mean[i + 2] + 0.5 * mean[i + 4]
        mean[i + 2] += mean[i + 4]
        for j in range(6):
            cov[i, j] += cov[i + 2, j] + 0.5 * cov[i + 4, j]
            cov[i + 2, j] += cov[i + 4, j]
    for i in range(2):
        for j in range(6):
            cov[j, i] += cov[j, i + 2] + 0.5 * cov[j, i + 4]
            cov[j, i + 2] += cov[j, i + 4]
        cov[i + 4, i + 4] += drift
    gain = np.empty(6)
    for j in range(6):
        gain[j] = cov[j, 0] * x + cov[j, 1]
    variance = gain[0] * x + gain[1] + noise
    error = y - (mean[0] * x + mean[1])
    for i in range(6):
        mean[i] += gain[i] / variance * error
        for j in range(6):
            cov[i, j] -= gain[i] * gain[j] / variance


@kernel
def log_loss_ahead(mean: Floats, log_samples: float, steps: float) -> float:
    """Return ln l so many steps ahead, after so many batches by then.

    Args:
        mean: [6] as of `kalman_step`.
        log_samples: ln of the batches by then.
        steps: >= 0.
    """
    half = 0.5 * steps * steps
    slope = mean[0] + steps * mean[2] + half * mean[4]
    return float(slope * log_samples + mean[1] + steps * mean[3] + half * mean[5])


@kernel
def lower_bound(state: Floats, beta: float, log_samples: float) -> float:
    """Return the predicted ln l less beta standard units of the prediction.

    <X, theta> - beta sqrt(X' V^-1 X) with X = [ln s, 1] and V of the discounted ridge.

    Args:
        state: [10] of the least squares.
        beta: >= 0.
        log_samples: ln s.
    """
    slope, intercept = wls.solve(state)
    weight, x, e = state[WEIGHT], state[MEAN_X], state[START]
    det = (state[SXX] + e) * (weight + e) + e * weight * x * x
    by = log_samples - x
    square = weight * by * by + e * log_samples * log_samples + state[SXX] + e
    width = math.sqrt(square / det) if det > 0.0 else 0.0
    return slope * log_samples + intercept - beta * width


@kernel
def rate_ratio(
    state: Floats, beta: float, log_eps: float, rate: float, slack: float, units: float
) -> float:
    """Return the predicted over the required rate at which ln l falls over ln s.

    Args:
        state, beta: as of `lower_bound`.
        log_eps: ln of the threshold.
        rate: N.
        slack: units of time until the deadline.
        units: of the slice.
    """
    samples, loss = state[SAMPLES], state[LOSS]
    if samples == 0.0 or not loss > 0.0:
        return np.inf
    if not loss < np.inf:
        return -np.inf
    drop = math.log(loss) - log_eps
    if drop <= 0.0:
        return np.inf
    at = math.log(samples)
    required = drop / (math.log(samples + slack * rate) - at)
    ahead = math.log(samples + min(units, slack) * rate)
    predicted = (math.log(loss) - lower_bound(state, beta, ahead)) / (ahead - at)
    return predicted / required


@kernel
def observe_all(
    means: Floats,
    covs: Floats,
    noise: float,
    drift: float,
    samples: Floats,
    loss: Floats,
    fresh: Bools,
) -> None:
    """Learn a unit of time of all threads; arrays [k, ...] as of `kalman_step`."""
    for k in range(len(means)):
        if fresh[k] and loss[k] > 0.0 and loss[k] < np.inf:
            kalman_step(means[k], covs[k], math.log(samples[k]), math.log(loss[k]), noise, drift)


@kernel
def best_candidate(
    means: Floats,
    states: Floats,
    beta: float,
    log_eps: Floats,
    rate: Floats,
    slack: Floats,
    active: Bools,
    reports: Floats,
    min_reports: float,
    units: float,
) -> int:
    """Return the thread of the next slice.

    Args:
        means: [k, 6] of the filters.
        states, beta, log_eps, rate, slack, units: as of `rate_ratio`, [k] each thread's.
        active: [k] threads that may learn and are not done.
        reports: [k] units of time that each learned in.
        min_reports: reports before a thread is judged; infinite: no look-ahead.
    """
    num = len(active)
    ratio = np.full(num, -np.inf)
    candidate = np.zeros(num, dtype=np.bool_)
    for k in range(num):
        if not active[k]:
            continue
        ratio[k] = rate_ratio(states[k], beta, log_eps[k], rate[k], slack[k], units)
        ahead = -np.inf
        if reports[k] >= min_reports:
            log_samples = math.log(states[k, SAMPLES] + slack[k] * rate[k])
            ahead = log_loss_ahead(means[k], log_samples, math.floor(slack[k]))
        candidate[k] = ahead <= log_eps[k]
    if not candidate.any():
        candidate = active
    best = -1
    for k in range(num):
        if candidate[k] and (best < 0 or ratio[k] > ratio[best]):
            best = k
    return best


@dataclass(frozen=True, slots=True)
class Laira:
    """LaiRA; without look-ahead its baseline STA.

    Attributes:
        look_ahead: whether threads that are out of reach are left out.
        beta: of the lower confidence bound.
        gamma, regularization: of the least squares.
        noise: variance of ln l.
        drift: variance of the change of the acceleration in a step, >= 0.
        velocity, acceleration: standard deviations of theta's before anything is seen.
        units: M of the first slices.
        proportional, derivative: K_p and K_d, units of time.
    """

    look_ahead: bool = True
    beta: float = 0.1
    gamma: float = 0.9
    regularization: float = 1e-3
    noise: float = 0.01
    drift: float = 0.0
    velocity: float = 1e-3
    acceleration: float = 1e-6
    units: int = 10
    proportional: float = 10.0
    derivative: float = 10.0

    def __post_init__(self) -> None:
        for name in ("beta", "drift", "velocity", "acceleration", "proportional", "derivative"):
            check_finite(getattr(self, name), name, "a number >= 0")
        if not 0 < self.gamma <= 1:
            raise InputError("gamma", f"{self.gamma!r}", "a number > 0 and <= 1")
        check_positive(self.regularization, "regularization", "a number > 0")
        check_positive(self.noise, "noise", "a number > 0")
        check_count(self.units, "units", 1)

    @property
    def name(self) -> str:
        return "laira" if self.look_ahead else "sta"

    def start(self, threads: Sequence[LearningThread]) -> "LairaRun":
        return LairaRun(self, threads)


class LairaRun:
    """LaiRA at work."""

    def __init__(self, params: Laira, threads: Sequence[LearningThread]) -> None:
        num = len(threads)
        self._params, self._bundle = params, bundle_arrays(threads)
        self._log_eps = np.log(self._bundle.threshold)
        self._states = wls.fresh_states(params.regularization, num)
        self._means, self._reports = np.zeros((num, 6)), np.zeros(num)
        variances = (_PRIOR, params.velocity**2, params.acceleration**2)
        self._covs = np.tile(np.diag(np.repeat(variances, 2)), (num, 1, 1))
        # M, not rounded.
        self._length = float(params.units)
        # The thread that learned in the last unit, and in how many since its slice began. What was
        # observed says so: a pool whose jobs come and go observes its log again.
        self._last, self._run = -1, 0
        # ln l of the present slice's thread as predicted for its end.
        self._predicted = math.nan
        self._errors: list[float] = []

    def allocate(self, observation: Observation) -> Shares:
        self._observe(observation)
        active = is_active(self._bundle.start, self._bundle.deadline, observation)
        eta = np.zeros(len(active))
        if active.any():
            eta[self._next_thread(observation, active)] = 1.0
        return Shares(eta)

    def _observe(self, observation: Observation) -> None:
        params = self._params
        seen = observation.samples, observation.loss, observation.fresh
        wls.observe_all(self._states, params.gamma, *seen)
        observe_all(self._means, self._covs, params.noise, params.drift, *seen)
        learned = int(np.argmax(observation.fresh)) if observation.fresh.any() else -1
        self._run = self._run + 1 if learned == self._last else 1
        self._last = learned
        self._reports += observation.fresh

    @property
    def _slice(self) -> int:
        """Units of time of a slice."""
        return round(self._length)

    def _next_thread(self, observation: Observation, active: Bools) -> int:
        last = self._last
        if last >= 0 and self._run >= self._slice:
            self._observe_error(float(self._states[last, LOSS]))
        elif last >= 0 and active[last]:
            return last
        return self._begin_slice(observation, active)

    def _observe_error(self, loss: float) -> None:
        """Learn the error of a slice that was served to its end, and the next one's length."""
        if math.isnan(self._predicted) or not 0.0 < loss < math.inf:
            return
        self._errors = [abs(math.log(loss) - self._predicted), *self._errors[:2]]
        if len(self._errors) == 3:
            e1, e2, e3 = self._errors
            by = self._params.proportional * (e1 - e2)
            by += self._params.derivative * (e1 - 2.0 * e2 + e3)
            self._length = max(1.0, self._length - by)

    def _begin_slice(self, observation: Observation, active: Bools) -> int:
        params, rate = self._params, observation.batches_per_unit
        slack = self._bundle.deadline - observation.time
        thread = best_candidate(
            self._means,
            self._states,
            params.beta,
            self._log_eps,
            rate,
            slack,
            active,
            self._reports,
            float(params.units) if params.look_ahead else math.inf,
            float(self._slice),
        )
        self._run, self._predicted = 0, math.nan
        if self._reports[thread] > 1:
            units = min(self._slice, int(slack[thread]))
            log_samples = math.log(self._states[thread, SAMPLES] + units * rate[thread])
            self._predicted = lower_bound(self._states[thread], 0.0, log_samples)
        return thread
