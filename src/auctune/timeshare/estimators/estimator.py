"""The protocol of an estimator of remaining work, and what estimators share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from auctune.numerics.arrays import Bools, Floats
from auctune.numerics.jit import kernel

# Beyond this a need counts as infinite.
MAX_BATCHES = 1e15

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


MAX_LOG = math.log(MAX_BATCHES)


@kernel
def crossing_point(log_end: float, samples: float) -> float:
    """Return whole batches from `samples` to e^log_end, one at least; infinite if too many."""
    # Not <=: NaN, of infinities that cancel, is out of reach as well.
    if not log_end <= MAX_LOG:
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


class VectorizedEstimator(Protocol):
    """An estimator at work on all threads of a bundle."""

    def observe(self, samples: Floats, loss: Floats, fresh: Bools) -> None:
        """Learn from a unit of time; all arrays [k].

        A loss that is zero or less says that any threshold is reached, one that is not finite that
        none is within reach until another comes; neither enters the fit.

        Args:
            samples: batches learned up to its end, > 0 and more than before.
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

    def start_bank(self, num_threads: int) -> VectorizedEstimator:
        """At work on so many threads, that have learned nothing."""
        ...


class SingleThread:
    """A bank of one thread, called with numbers."""

    def __init__(self, estimator: Estimator) -> None:
        self._bank = estimator.start_bank(1)

    def observe(self, samples: float, loss: float) -> None:
        self._bank.observe(np.array([samples]), np.array([loss]), np.array([True]))

    def need(self, threshold: float) -> Need:
        batches, low, high = self._bank.needs(np.array([threshold]))
        return Need(float(batches[0]), float(low[0]), float(high[0]))


class LossEstimator(Protocol):
    """An estimator at work on one thread, for an `EstimatorLoop`; see `VectorizedEstimator`."""

    def observe(self, samples: float, loss: float) -> None: ...

    def need(self, threshold: float) -> Need: ...


class EstimatorLoop:
    """A bank of estimators that look at one thread each.

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
