"""Explore, then exploit; LARA, Algorithm 2.

Active threads that have learned at most H_k batches share the pool evenly; only when there are none
is there a plan. H_k is a number of batches (8,000 for the paper's Table 1, half of its time), or
follows from a share of the time: exploring all K threads of a bundle takes that share of the time
from the first start to the last deadline, H_k = share N_k (max d - min b) / K.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_finite
from auctune.timeshare.arrays import Bools, Floats
from auctune.timeshare.estimators.estimator import Needs
from auctune.timeshare.observation import Observation
from auctune.timeshare.thread import LearningThread


@dataclass(frozen=True, slots=True)
class Exploration:
    """How much of each thread is seen before it is planned with.

    Attributes:
        batches: H, of each thread; none: by `share`.
        share: of a bundle's time, in [0, 1].
    """

    batches: float | None = None
    share: float = 0.1

    def __post_init__(self) -> None:
        if self.batches is not None:
            check_finite(self.batches, "batches", "a number >= 0")
        if not 0 <= self.share <= 1:
            raise InputError("share", f"{self.share!r}", "a number >= 0 and <= 1")

    @property
    def name(self) -> str:
        """With its parameter."""
        return f"h={self.batches:g}" if self.batches is not None else f"explore={self.share:g}"

    def start(self, threads: Sequence[LearningThread]) -> "ExplorationRun":
        """At work on one bundle."""
        if self.batches is not None:
            return ExplorationRun(self.batches, 0.0)
        first = min(thread.start for thread in threads)
        last = max(thread.deadline for thread in threads)
        return ExplorationRun(0.0, self.share * (last - first) / len(threads))


class ExplorationRun:
    """Explore, then exploit."""

    def __init__(self, batches: float, units: float) -> None:
        self._batches, self._units = batches, units

    def explored(self, observation: Observation, active: Bools) -> Bools:
        """Those that have learned at most H."""
        enough = self._batches + self._units * observation.batches_per_unit
        return active & (observation.samples <= enough)

    def corrected(self, observation: Observation, needs: Needs) -> Floats:
        """As they are said."""
        return needs.batches


def unseen(observation: Observation, active: Bools) -> Bools:
    """[k] active threads that have learned nothing: whoever explores by need begins with them."""
    return active & (observation.samples < 1)


def at_least_one(batches: Floats) -> Floats:
    """Needs that a correction may have brought under a batch."""
    return np.maximum(1.0, batches)
