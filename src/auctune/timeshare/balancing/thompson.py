"""Thompson sampling: plan with needs drawn from what they may be.

The logarithm of a need is drawn from two half normals about the said one, that have its deciles. A
need said to be infinite is drawn finite, at its low decile, one time in ten. Threads that have
learned nothing are explored first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain.checks import check_count
from auctune.numerics.rng import stream
from auctune.timeshare.arrays import Bools, Floats
from auctune.timeshare.balancing.exploration import at_least_one, unseen
from auctune.timeshare.estimators.estimator import Needs
from auctune.timeshare.estimators.need import SPREAD
from auctune.timeshare.observation import Observation
from auctune.timeshare.thread import LearningThread


@dataclass(frozen=True, slots=True)
class Thompson:
    """Draws.

    Attributes:
        seed: of all of them.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.seed, "seed", 0)

    @property
    def name(self) -> str:
        """Without its seed."""
        return "thompson"

    def start(self, threads: Sequence[LearningThread]) -> "ThompsonRun":
        """At work on one bundle."""
        return ThompsonRun(self.seed)


class ThompsonRun:
    """Draws for one bundle, the same for a unit of time whenever it is asked for."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def explored(self, observation: Observation, active: Bools) -> Bools:
        """Those of which nothing is known."""
        return unseen(observation, active)

    def corrected(self, observation: Observation, needs: Needs) -> Floats:
        """One draw of each."""
        random = stream(self._seed, "thompson", observation.time)
        z = random.standard_normal(len(needs.batches)) / SPREAD
        finite = np.isfinite(needs.batches)
        middle = np.log(np.maximum(1.0, np.where(finite, needs.batches, 1.0)))
        low = np.log(np.maximum(1.0, np.where(finite, needs.low, 1.0)))
        # An infinite upper decile is as far as the float goes.
        high = np.log(np.where(finite, np.clip(needs.high, 1.0, 1e300), 1.0))
        drawn = np.exp(
            middle + np.where(z < 0, z * (middle - low), z * (high - middle)).clip(max=600)
        )
        rare = np.where(z < -1.0, needs.low, np.inf)
        return at_least_one(np.ceil(np.where(finite, drawn, rare)))
