"""The benefit of the doubt: no thread is given up before its loss says clearly that it fails.

A thread that is wrongly given up is lost, one that is wrongly kept costs time only while it is
served. So needs are read in favour of the thread until enough is known:

- of fewer than `units` units of time: it needs next to nothing, or, see below, a part of the time;
- a need that fits the time left: as it is said;
- one that does not, but whose low decile is at most (1 + doubt / n) of the time left, n the units
  learned from: all the time left, so that it goes first where time is short;
- else it is out of reach.

There is no exploring for its own sake. While deadlines are far apart (`Closeness`), threads are
looked at when it matters, with the whole pool, and not with a part of it long before. While they
are close together, nobody must be first, and a thread that is not known may not hide behind needing
nothing: it is taken to need half of what an even part of the time left comes to.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain.checks import check_count, check_finite
from auctune.timeshare.allocation.closeness import apart, check_near
from auctune.timeshare.arrays import Bools, Floats
from auctune.timeshare.balancing.exploration import at_least_one
from auctune.timeshare.estimators.estimator import Needs
from auctune.timeshare.observation import Observation
from auctune.timeshare.thread import BundleArrays, LearningThread, bundle_arrays

# Of an even part of the time left, what an unknown thread is taken to need.
PART = 0.5


@dataclass(frozen=True, slots=True)
class Doubt:
    """How much doubt there is.

    Attributes:
        units: of time that a thread learned in before its need is believed.
        doubt: by how much, divided by those units, a low decile may exceed the time left.
        near: how close deadlines are together while unknown threads need a part of the time.
    """

    units: int = 8
    doubt: float = 8.0
    near: float = 0.5

    def __post_init__(self) -> None:
        check_count(self.units, "units", 1)
        check_finite(self.doubt, "doubt", "a number >= 0")
        check_near(self.near)

    @property
    def name(self) -> str:
        """With its parameters."""
        return f"doubt={self.doubt:g}/{self.units}"

    def start(self, threads: Sequence[LearningThread]) -> "DoubtRun":
        """At work on one bundle."""
        return DoubtRun(self, bundle_arrays(threads))


class DoubtRun:
    """The benefit of the doubt at work."""

    def __init__(self, params: Doubt, bundle: BundleArrays) -> None:
        self._params, self._start, self._deadline = params, bundle.start, bundle.deadline
        self._units = np.zeros(len(bundle.start))

    def explored(self, observation: Observation, active: Bools) -> Bools:
        """Nobody, for its own sake."""
        self._units += observation.fresh
        return np.zeros(len(active), dtype=np.bool_)

    def corrected(self, observation: Observation, needs: Needs) -> Floats:
        """In favour of the thread."""
        left = self._deadline - observation.time
        room = left * observation.batches_per_unit
        favour = 1.0 + self._params.doubt / np.maximum(self._units, 1.0)
        doubtful = np.where(needs.low <= favour * room, room, np.inf)
        believed = np.where(needs.batches <= room, needs.batches, doubtful)
        unknown = self._units < self._params.units
        if unknown.any():
            believed[unknown] = self._unknown(observation, left, unknown | np.isfinite(believed))[
                unknown
            ]
        return at_least_one(believed)

    def _unknown(self, observation: Observation, left: Floats, possible: Bools) -> Floats:
        """[k] what threads are taken to need before anything is known of them."""
        possible = possible & (left > 0) & (self._start <= observation.time) & ~observation.done
        if not possible.any() or apart(left, possible, self._params.near):
            return np.ones(len(left))
        even = left[possible].max() / np.count_nonzero(possible)
        rate = observation.batches_per_unit
        needs: Floats = np.minimum(PART * even * rate - observation.samples, left * rate)
        return needs
