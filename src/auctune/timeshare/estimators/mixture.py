"""The estimator `Mixture`: Bayesian model averaging over laws of the loss."""

import math
from dataclasses import dataclass

import numpy as np

from auctune.domain.checks import check_finite
from auctune.numerics.arrays import Bools, Floats
from auctune.numerics.jit import kernel
from auctune.timeshare.estimators.estimator import (
    HIGH_LEVEL,
    LOW_LEVEL,
    Needs,
    crossing_point,
)

# Columns of `head`, [k, ...]: VARIANCE is that of one batch, of as many units as TRIALS says;
# WEIGHT and MEAN_Y are moments that all laws share.
SAMPLES, LOSS, COUNT, MIDDLE, ORIGIN, UNIT, VARIANCE, TRIALS, THRESHOLD, WEIGHT, MEAN_Y = range(11)
HEAD = 11
# Columns of `members`, [k, p, ...].
MEAN_X, SXX, SXY, ERROR = range(4)
# Laws with p = 0, 1/2 and 1; how fast weights fall with data; and from how many standard deviations
# on a unit counts less.
LAWS, KAPPA, CLIP = 3, 6.0, 2.0

# Units before a law is believed, and before outliers are told.
FEWEST, _TELLING = 4, 10
_MEMORY = 0.95


@kernel
def bend(u: float, x: Floats) -> None:
    """phi_p(u) for p = 0, 1/2 and 1: [p] of `x`, written."""
    step = 1.0 / (LAWS - 1)
    root = math.exp(step * u)
    power = root
    x[0] = u
    for j in range(1, LAWS):
        x[j] = (power - 1.0) / (j * step)
        power *= root


@kernel
def outlier_weight(head: Floats, error: float, batches: float) -> float:
    """How much a unit counts, by its error in standard deviations; and learn the noise from it."""
    variance, size = error * error * batches, abs(error)
    weight = 1.0
    if head[COUNT] > _TELLING:
        limit = CLIP * math.sqrt(head[VARIANCE] / batches)
        if size > limit:
            weight = limit / size
            variance *= weight * weight
    trials = _MEMORY * head[TRIALS] + 1.0
    head[VARIANCE] += (variance - head[VARIANCE]) / trials
    head[TRIALS] = trials
    # Noise must not vanish: a loss that stands still would make outliers of all that follow.
    head[VARIANCE] = max(head[VARIANCE], 1e-18)
    return weight


@kernel
def predicted(members: Floats, mean_y: float, x: Floats, y: float, learned: float) -> float:
    """The mixture's error at a unit (observed less predicted); members' errors are written."""
    total, best = 0.0, 0.0
    for p in range(LAWS):
        member = members[p]
        slope = member[SXY] / member[SXX] if member[SXX] > 0.0 else 0.0
        error = y - (mean_y + slope * (x[p] - member[MEAN_X]))
        weight = 1.0 / (member[ERROR] + 1e-12)
        total += weight
        best += weight * error
        member[ERROR] += learned * (min(error * error, 1.0) - member[ERROR])
    return best / total


@kernel
def observe(head: Floats, members: Floats, x: Floats, samples: float, loss: float) -> None:
    """One unit of time of one thread.

    Args:
        head, members: [11] and [p, 4] of the thread; written.
        x: [p] scratch.
        samples, loss: batches at the unit's end, and mean loss over it.
    """
    batches = samples - head[SAMPLES]
    middle = samples - 0.5 * batches
    head[SAMPLES], head[LOSS], head[THRESHOLD] = samples, loss, np.nan
    # The next unit is as long as the last ones, of which a short one says little.
    head[UNIT] = max(batches, _MEMORY * head[UNIT])
    if not (loss > 0.0 and loss < np.inf):
        return
    if head[COUNT] == 0.0:
        head[MIDDLE], head[ORIGIN] = middle, math.log(middle)
    y, forward = math.log(loss), math.log(middle / head[MIDDLE])
    bend(math.log(middle) - head[ORIGIN], x)
    head[COUNT] += 1.0
    head[MIDDLE] = middle
    weight = batches
    if head[COUNT] > FEWEST:
        # Errors are remembered by data as well, but for the last units at most.
        learned = max(1.0 - math.exp(-forward), 0.02) * batches / head[UNIT]
        error = predicted(members, head[MEAN_Y], x, y, learned)
        weight *= outlier_weight(head, error, batches)
    fade = math.exp(-KAPPA * forward)
    old = fade * head[WEIGHT]
    total = old + weight
    by, kept = weight / total, weight * old / total
    dy = y - head[MEAN_Y]
    head[WEIGHT] = total
    head[MEAN_Y] += by * dy
    for p in range(LAWS):
        member = members[p]
        dx = x[p] - member[MEAN_X]
        member[MEAN_X] += by * dx
        member[SXX] = fade * member[SXX] + kept * dx * dx
        member[SXY] = fade * member[SXY] + kept * dx * dy


@kernel
def observe_all(
    heads: Floats, members: Floats, samples: Floats, loss: Floats, fresh: Bools
) -> None:
    """One unit of time of all threads; arrays as of `observe`, [k] before them."""
    x = np.empty(LAWS)
    for k in range(len(heads)):
        if fresh[k]:
            observe(heads[k], members[k], x, samples[k], loss[k])


@kernel
def crossings(head: Floats, members: Floats, level: float, ends: Floats, weights: Floats) -> None:
    """ln s at which each member is at a level, rising; infinite where it never is.

    Args:
        head, members: of the thread.
        level: of ln l.
        ends, weights: [p] crossings and the members' weights; written.
    """
    for p in range(LAWS):
        member = members[p]
        end = np.inf
        if member[SXY] < 0.0:
            x = member[MEAN_X] + (level - head[MEAN_Y]) * member[SXX] / member[SXY]
            bent = p / (LAWS - 1.0)
            if p == 0:
                end = head[ORIGIN] + x
            elif 1.0 + bent * x > 0.0:
                end = head[ORIGIN] + math.log(1.0 + bent * x) / bent
            else:
                end = -np.inf
        weight = 1.0 / (member[ERROR] + 1e-12)
        at = p
        while at > 0 and ends[at - 1] > end:
            ends[at], weights[at] = ends[at - 1], weights[at - 1]
            at -= 1
        ends[at], weights[at] = end, weight


@kernel
def quantile(ends: Floats, weights: Floats, share: float) -> float:
    """Return the least end with at least this share of all weight up to it."""
    total = 0.0
    for weight in weights:
        total += weight
    below = 0.0
    for i in range(len(ends)):
        below += weights[i]
        if below >= share * total:
            return float(ends[i])
    return float(ends[-1])


@kernel
def predict(
    head: Floats, members: Floats, tau: float, threshold: float, ends: Floats, weights: Floats
) -> tuple[float, float, float]:
    """Return the need of one thread with its deciles; the last two arguments are scratch, [p]."""
    samples, loss = head[SAMPLES], head[LOSS]
    if samples == 0.0:
        return np.inf, 1.0, np.inf
    if not abs(loss) < np.inf:
        return np.inf, np.inf, np.inf
    if loss <= threshold:
        return 0.0, 0.0, 0.0
    if head[COUNT] < FEWEST:
        return np.inf, 1.0, np.inf
    level = math.log(threshold) + tau * math.sqrt(head[VARIANCE] / head[UNIT])
    crossings(head, members, level, ends, weights)
    return (
        crossing_point(quantile(ends, weights, 0.5), samples),
        crossing_point(quantile(ends, weights, LOW_LEVEL), samples),
        crossing_point(quantile(ends, weights, HIGH_LEVEL), samples),
    )


@kernel
def predict_all(
    heads: Floats,
    members: Floats,
    tau: float,
    thresholds: Floats,
    need: Floats,
    low: Floats,
    high: Floats,
) -> None:
    """Needs of all threads, the last three written; only of those that have changed."""
    ends, weights = np.empty(LAWS), np.empty(LAWS)
    for k in range(len(heads)):
        if heads[k, THRESHOLD] != thresholds[k]:
            need[k], low[k], high[k] = predict(
                heads[k], members[k], tau, thresholds[k], ends, weights
            )
            heads[k, THRESHOLD] = thresholds[k]


# A mixture of laws that bend differently: auctune's own estimator.
#
# Training losses rarely follow l = a s^-b for long: the curve of ln l over ln s bends down while a
# model still learns quickly and up when it comes to its end, and a power law fitted to what was
# seen says too much or too little. Each member is a law
#
# ln l = A - B phi_p(u), phi_p(u) = (e^(p u) - 1) / p, u = ln(s / s_0), 0 <= p <= 1,
#
# p = 0 the power law, p = 1 an exponential decay, p = 1/2 between them. All are fitted by weighted
# least squares in centred moments, O(1) a step, with weights that fall with data and not with units
# of time: (s_i / s)^kappa. Beyond that
#
# - a unit counts by its batches, at the middle of them, and less when it is an outlier (Huber): a
#   share decides how much a loss is worth;
# - members are weighted by 1 / E, E the mean squared error with which they predicted the next unit;
# - the need is the weighted median of the members' crossings, `low` and `high` the outer deciles;
# - a thread is done when a loss is *observed* at or under eps, and the least of noisy losses lies
#   under their mean: the level looked for is that of eps e^(tau sigma), sigma the noise of a unit.


@dataclass(frozen=True, slots=True)
class Mixture:
    """The mixture.

    Attributes:
        tau: standard deviations by which the least of the losses to come lies under their mean.
    """

    tau: float = 1.0

    def __post_init__(self) -> None:
        check_finite(self.tau, "tau", "a number >= 0")

    @property
    def name(self) -> str:
        return "mixture"

    def start_bank(self, num_threads: int) -> "MixtureBank":
        return MixtureBank(self, num_threads)


class MixtureBank:
    """The mixture at work on all threads of a bundle."""

    def __init__(self, params: Mixture, num_threads: int) -> None:
        self._params = params
        self._heads = np.zeros((num_threads, HEAD))
        self._heads[:, THRESHOLD] = np.nan
        self._members = np.zeros((num_threads, LAWS, 4))
        self._needs = Needs(*(np.empty(num_threads) for _ in range(3)))

    def observe(self, samples: Floats, loss: Floats, fresh: Bools) -> None:
        observe_all(self._heads, self._members, samples, loss, fresh)

    def needs(self, thresholds: Floats) -> Needs:
        tau, needs = self._params.tau, self._needs
        predict_all(self._heads, self._members, tau, thresholds, *needs)
        return needs
