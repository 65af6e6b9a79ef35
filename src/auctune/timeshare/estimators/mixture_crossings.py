"""Where the laws of `Mixture` come to a threshold: a weighted median, and the outer deciles."""

import math

import numpy as np

from auctune.numerics.jit import kernel
from auctune.timeshare.arrays import Floats
from auctune.timeshare.estimators.line import batches_until
from auctune.timeshare.estimators.mixture_moments import (
    COUNT,
    ERROR,
    FEWEST,
    LOSS,
    MEAN_X,
    MEAN_Y,
    ORIGIN,
    SAMPLES,
    SXX,
    SXY,
    THRESHOLD,
    UNIT,
    VARIANCE,
)
from auctune.timeshare.estimators.need import HIGH_LEVEL, LOW_LEVEL


@kernel
def crossings(
    groups: Floats, members: Floats, origin: float, level: float, ends: Floats, weights: Floats
) -> None:
    """ln s at which each member is at a level, rising; infinite where it never is.

    Args:
        groups, members, origin: of the thread.
        level: of ln l.
        ends, weights: [g p] crossings and the members' weights; written.
    """
    num_laws, count = members.shape[1], 0
    for g in range(len(groups)):
        for p in range(num_laws):
            member = members[g, p]
            end = np.inf
            if member[SXY] < 0.0:
                x = member[MEAN_X] + (level - groups[g, MEAN_Y]) * member[SXX] / member[SXY]
                bent = p / (num_laws - 1.0)
                if p == 0:
                    end = origin + x
                elif 1.0 + bent * x > 0.0:
                    end = origin + math.log(1.0 + bent * x) / bent
                else:
                    end = -np.inf
            weight = 1.0 / (member[ERROR] + 1e-12)
            at = count
            while at > 0 and ends[at - 1] > end:
                ends[at], weights[at] = ends[at - 1], weights[at - 1]
                at -= 1
            ends[at], weights[at] = end, weight
            count += 1


@kernel
def quantile(ends: Floats, weights: Floats, share: float) -> float:
    """The least end with at least this share of all weight up to it."""
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
def foretell(
    head: Floats,
    groups: Floats,
    members: Floats,
    tau: float,
    threshold: float,
    ends: Floats,
    weights: Floats,
) -> tuple[float, float, float]:
    """The need of one thread with its deciles; the last two arguments are scratch, [g p]."""
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
    crossings(groups, members, head[ORIGIN], level, ends, weights)
    return (
        batches_until(quantile(ends, weights, 0.5), samples),
        batches_until(quantile(ends, weights, LOW_LEVEL), samples),
        batches_until(quantile(ends, weights, HIGH_LEVEL), samples),
    )


@kernel
def foretell_all(
    heads: Floats,
    groups: Floats,
    members: Floats,
    tau: float,
    thresholds: Floats,
    need: Floats,
    low: Floats,
    high: Floats,
) -> None:
    """Needs of all threads, the last three written; only of those that have changed."""
    num_members = members.shape[1] * members.shape[2]
    ends, weights = np.empty(num_members), np.empty(num_members)
    for k in range(len(heads)):
        if heads[k, THRESHOLD] != thresholds[k]:
            need[k], low[k], high[k] = foretell(
                heads[k], groups[k], members[k], tau, thresholds[k], ends, weights
            )
            heads[k, THRESHOLD] = thresholds[k]
