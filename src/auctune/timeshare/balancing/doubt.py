"""The benefit of the doubt: no thread is given up before its loss says clearly that it fails.

A thread that is wrongly given up is lost, one that is wrongly kept costs time only while it is
served. So needs are read in favour of the thread until enough is known:

- of fewer than `units` units of time: it needs next to nothing;
- a need that fits the time left: as it is said;
- one that does not, but whose low decile is at most (1 + doubt / n) of the time left, n the units
  learned from: all the time left, so that it goes first where time is short;
- else it is out of reach.

There is no exploring for its own sake: with a rule that serves the earliest deadline first, threads
are looked at when it matters, with the whole pool, and not with a part of it long before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_finite
from auctune.timeshare.arrays import Bools, Floats
from auctune.timeshare.balancing.exploration import at_least_one
from auctune.timeshare.estimators.estimator import Needs
from auctune.timeshare.observation import Observation
from auctune.timeshare.thread import LearningThread


@dataclass(frozen=True, slots=True)
class Doubt:
    """How much doubt there is.

    Attributes:
        units: of time that a thread learned in before its need is believed.
        doubt: by how much, divided by those units, a low decile may exceed the time left.
    """

    units: int = 8
    doubt: float = 8.0

    def __post_init__(self) -> None:
        if self.units < 1:
            raise InputError("units", f"{self.units!r}", "a whole number >= 1")
        check_finite(self.doubt, "doubt", "a number >= 0")

    @property
    def name(self) -> str:
        """With its parameters."""
        return f"doubt={self.doubt:g}/{self.units}"

    def start(self, threads: Sequence[LearningThread]) -> "DoubtRun":
        """At work on one bundle."""
        return DoubtRun(self, np.array([thread.deadline for thread in threads], dtype=np.float64))


class DoubtRun:
    """The benefit of the doubt at work."""

    def __init__(self, params: Doubt, deadline: Floats) -> None:
        self._params, self._deadline = params, deadline
        self._units = np.zeros(len(deadline))

    def explored(self, observation: Observation, active: Bools) -> Bools:
        """Nobody, for its own sake."""
        self._units += observation.fresh
        return np.zeros(len(active), dtype=np.bool_)

    def corrected(self, observation: Observation, needs: Needs) -> Floats:
        """In favour of the thread."""
        room = (self._deadline - observation.time) * observation.batches_per_unit
        favour = 1.0 + self._params.doubt / np.maximum(self._units, 1.0)
        doubtful = np.where(needs.low <= favour * room, room, np.inf)
        believed = np.where(needs.batches <= room, needs.batches, doubtful)
        return at_least_one(np.where(self._units < self._params.units, 1.0, believed))
