"""Optimism: needs less a bonus for what was seen little of; LARA, Remark 2.

    S'_k = S_k - beta sqrt(ln(tau - b_k) / sum of eta_k),   at least one batch.

It is defined once a unit has passed since the start and a share was received; threads that have
learned nothing are explored first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain.checks import check_finite
from auctune.timeshare.arrays import Bools, Floats
from auctune.timeshare.balancing.exploration import at_least_one, unseen
from auctune.timeshare.estimators.estimator import Needs
from auctune.timeshare.observation import Observation
from auctune.timeshare.thread import LearningThread


@dataclass(frozen=True, slots=True)
class Ucb:
    """The bonus.

    Attributes:
        beta: batches, >= 0.
    """

    beta: float = 100.0

    def __post_init__(self) -> None:
        check_finite(self.beta, "beta", "a number >= 0")

    @property
    def name(self) -> str:
        """With its parameter."""
        return f"ucb={self.beta:g}"

    def start(self, threads: Sequence[LearningThread]) -> "UcbRun":
        """At work on one bundle."""
        start = np.array([thread.start for thread in threads], dtype=np.float64)
        return UcbRun(self.beta, start)


class UcbRun:
    """Optimism at work."""

    def __init__(self, beta: float, start: Floats) -> None:
        self._beta, self._start = beta, start

    def explored(self, observation: Observation, active: Bools) -> Bools:
        """Those of which nothing is known."""
        return unseen(observation, active)

    def corrected(self, observation: Observation, needs: Needs) -> Floats:
        """Less the bonus."""
        elapsed = observation.time - self._start
        defined = (elapsed > 0) & (observation.received > 0)
        logs = np.log(np.where(defined, elapsed, 1.0))
        bonus = self._beta * np.sqrt(logs / np.where(defined, observation.received, 1.0))
        return at_least_one(needs.batches - bonus)
