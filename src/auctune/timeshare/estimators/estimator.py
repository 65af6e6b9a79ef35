"""The protocol of an estimator of remaining work, and what estimators share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from auctune.numerics.arrays import Bools, Floats
from auctune.numerics.jit import kernel

# Beyond this a need counts as infinite.
MOST_BATCHES = 1e15

# Quantiles that `low` and `high` stand for, and how many standard deviations a normal has there.
LOW_LEVEL, HIGH_LEVEL = 0.1, 0.9
SPREAD = 1.2815515655446004


@dataclass(frozen=True, slots=True)
class Need:
    """Batches until a loss is reached.

    Attributes:
        batches: whole, at least 1; infinite if the loss is out of reach; 0 if it has been reached.
        low, high: the 10% and the 90% quantile of what it may be; low <= batches <= high.
    """

    batches: float
    low: float
    high: float


def first_need(samples: float, loss: float, threshold: float) -> Need | None:
    """Return the need that follows from a thread's last unit alone, or None if a law is needed.

    Args:
        samples: batches so far.
        loss: of the last unit.
        threshold: to be reached.
    """
    if samples == 0.0:
        return Need(math.inf, 1.0, math.inf)
    if not math.isfinite(loss):
        return Need(math.inf, math.inf, math.inf)
    if loss <= threshold:
        return Need(0.0, 0.0, 0.0)
    return None


_MOST_LOG = math.log(MOST_BATCHES)


@kernel
def crossing_point(log_end: float, samples: float) -> float:
    """Return whole batches from `samples` to e^log_end, one at least; infinite if too many."""
    # Not <=: NaN, of infinities that cancel, is out of reach as well.
    if not log_end <= _MOST_LOG:
        return np.inf
    return max(1.0, math.ceil(math.exp(log_end) - samples))


class Needs(NamedTuple):
    """Needs of the threads of a bundle, in batches; see `Need`.

    Attributes:
        batches, low, high: [k].
    """

    batches: Floats
    low: Floats
    high: Floats


class LossEstimator(Protocol):
    """An estimator at work on one thread."""

    def observe(self, samples: float, loss: float) -> None:
        """Learn from a unit of time.

        A loss that is zero or less says that any threshold is reached, one that is not finite that
        none is within reach until another comes; neither enters the fit.

        Args:
            samples: batches learned up to its end, > 0 and more than before.
            loss: mean over its batches.
        """
        ...

    def need(self, threshold: float) -> Need:
        """Return the batches until the loss is at or under a threshold > 0."""
        ...

    def copy(self) -> "LossEstimator":
        """Return another one that has learned the same."""
        ...


class VectorizedEstimator(Protocol):
    """An estimator at work on all threads of a bundle."""

    def observe(self, samples: Floats, loss: Floats, fresh: Bools) -> None:
        """Learn from a unit of time; all arrays [k].

        Args:
            samples: batches learned up to its end.
            loss: mean over its batches, read where `fresh`.
            fresh: threads that learned a batch in it.
        """
        ...

    def needs(self, thresholds: Floats) -> Needs:
        """Needs of all threads, [k]. The arrays are the bank's own, written anew at each call."""
        ...


class Estimator(Protocol):
    """Parameters of an estimator: a frozen dataclass."""

    @property
    def name(self) -> str:
        """As tables name it."""
        ...

    def start(self) -> LossEstimator:
        """At work on one thread, that has learned nothing."""
        ...

    def start_bank(self, num_threads: int) -> VectorizedEstimator:
        """At work on so many."""
        ...


class EstimatorLoop:
    """One estimator for each thread.

    A need is predicted again only where a unit of time was learned from or the threshold is new.
    """

    def __init__(self, estimators: Sequence[LossEstimator]) -> None:
        self._estimators = list(estimators)
        self._stale = np.ones(len(estimators), dtype=np.bool_)
        self._thresholds = np.full(len(estimators), np.nan)
        self._needs = Needs(*(np.full(len(estimators), np.inf) for _ in range(3)))

    def observe(self, samples: Floats, loss: Floats, fresh: Bools) -> None:
        for k in np.flatnonzero(fresh):
            self._estimators[k].observe(float(samples[k]), float(loss[k]))
        self._stale |= fresh

    def needs(self, thresholds: Floats) -> Needs:
        for k in np.flatnonzero(self._stale | (thresholds != self._thresholds)):
            need = self._estimators[k].need(float(thresholds[k]))
            self._needs.batches[k] = need.batches
            self._needs.low[k], self._needs.high[k] = need.low, need.high
        self._stale[:] = False
        self._thresholds = thresholds.copy()
        return self._needs
