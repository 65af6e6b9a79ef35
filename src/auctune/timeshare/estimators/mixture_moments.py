"""Moments of the laws of `Mixture`, and how they learn from a unit of time.

Of each thread they are a few numbers, and a unit costs as many steps as there are laws; what they
are of is in `auctune.timeshare.estimators.mixture`.
"""

import math

import numpy as np

from auctune.numerics.jit import kernel
from auctune.timeshare.arrays import Bools, Floats

# Columns of `head`, [k, ...]: VARIANCE is that of one batch, of as many units as TRIALS says.
SAMPLES, LOSS, COUNT, MIDDLE, ORIGIN, UNIT, VARIANCE, TRIALS, THRESHOLD = range(9)
HEAD = 9
# Columns of `groups`, [k, g, ...], by kappa.
WEIGHT, MEAN_Y = range(2)
# Columns of `members`, [k, g, p, ...].
MEAN_X, SXX, SXY, ERROR = range(4)

# Units before a law is believed, and before outliers are told.
FEWEST, _TELLING = 4, 10
_MEMORY = 0.95


@kernel
def bend(u: float, step: float, num_laws: int, x: Floats) -> None:
    """phi_p(u) for p = 0, step, 2 step, ...: [p] of `x`, written."""
    root = math.exp(step * u)
    power = root
    x[0] = u
    for j in range(1, num_laws):
        x[j] = (power - 1.0) / (j * step)
        power *= root


@kernel
def outlier_weight(head: Floats, error: float, batches: float, clip: float) -> float:
    """How much a unit counts, by its error in standard deviations; and learn the noise from it."""
    variance, size = error * error * batches, abs(error)
    weight = 1.0
    if head[COUNT] > _TELLING:
        limit = clip * math.sqrt(head[VARIANCE] / batches)
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
def foretold(groups: Floats, members: Floats, x: Floats, y: float, learned: float) -> float:
    """The mixture's error at a unit (observed less foretold); members' errors are written."""
    total, best = 0.0, 0.0
    for g in range(len(groups)):
        for p in range(len(x)):
            member = members[g, p]
            slope = member[SXY] / member[SXX] if member[SXX] > 0.0 else 0.0
            error = y - (groups[g, MEAN_Y] + slope * (x[p] - member[MEAN_X]))
            weight = 1.0 / (member[ERROR] + 1e-12)
            total += weight
            best += weight * error
            member[ERROR] += learned * (min(error * error, 1.0) - member[ERROR])
    return best / total


@kernel
def observe(
    head: Floats,
    groups: Floats,
    members: Floats,
    kappas: Floats,
    clip: float,
    x: Floats,
    samples: float,
    loss: float,
) -> None:
    """One unit of time of one thread.

    Args:
        head, groups, members: [9], [g, 2] and [g, p, 4] of the thread; written.
        kappas: [g] how fast weights fall with data.
        clip: standard deviations beyond which a unit counts less.
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
    bend(math.log(middle) - head[ORIGIN], 1.0 / (len(x) - 1), len(x), x)
    head[COUNT] += 1.0
    head[MIDDLE] = middle
    weight = batches
    if head[COUNT] > FEWEST:
        # Errors are remembered by data as well, but for the last units at most.
        learned = max(1.0 - math.exp(-forward), 0.02) * batches / head[UNIT]
        error = foretold(groups, members, x, y, learned)
        weight *= outlier_weight(head, error, batches, clip)
    for g in range(len(groups)):
        fade = math.exp(-kappas[g] * forward)
        old = fade * groups[g, WEIGHT]
        total = old + weight
        by, kept = weight / total, weight * old / total
        dy = y - groups[g, MEAN_Y]
        groups[g, WEIGHT] = total
        groups[g, MEAN_Y] += by * dy
        for p in range(len(x)):
            member = members[g, p]
            dx = x[p] - member[MEAN_X]
            member[MEAN_X] += by * dx
            member[SXX] = fade * member[SXX] + kept * dx * dx
            member[SXY] = fade * member[SXY] + kept * dx * dy


@kernel
def observe_all(
    heads: Floats,
    groups: Floats,
    members: Floats,
    kappas: Floats,
    clip: float,
    samples: Floats,
    loss: Floats,
    fresh: Bools,
) -> None:
    """One unit of time of all threads; arrays as of `observe`, [k] before them."""
    x = np.empty(members.shape[2])
    for k in range(len(heads)):
        if fresh[k]:
            observe(heads[k], groups[k], members[k], kappas, clip, x, samples[k], loss[k])
