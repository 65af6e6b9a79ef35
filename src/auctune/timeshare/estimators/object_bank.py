"""A bank of estimators that have no kernel of their own."""

from collections.abc import Sequence

import numpy as np

from auctune.timeshare.arrays import Bools, Floats
from auctune.timeshare.estimators.estimator import LossEstimator, Needs


class ObjectBank:
    """One estimator for each thread.

    A need is asked for again only where a unit of time was learned from or the threshold is new.
    """

    def __init__(self, estimators: Sequence[LossEstimator]) -> None:
        self._estimators = list(estimators)
        self._stale = np.ones(len(estimators), dtype=np.bool_)
        self._thresholds = np.full(len(estimators), np.nan)
        self._needs = Needs(*(np.full(len(estimators), np.inf) for _ in range(3)))

    def observe(self, samples: Floats, loss: Floats, fresh: Bools) -> None:
        """Learn from a unit of time."""
        for k in np.flatnonzero(fresh):
            self._estimators[k].observe(float(samples[k]), float(loss[k]))
        self._stale |= fresh

    def needs(self, thresholds: Floats) -> Needs:
        """Needs of all threads."""
        for k in np.flatnonzero(self._stale | (thresholds != self._thresholds)):
            need = self._estimators[k].need(float(thresholds[k]))
            self._needs.batches[k] = need.batches
            self._needs.low[k], self._needs.high[k] = need.low, need.high
        self._stale[:] = False
        self._thresholds = thresholds.copy()
        return self._needs
