"""How the rest of auctune sees a balance of exploring and planning."""

from collections.abc import Sequence
from typing import Protocol

from auctune.timeshare.arrays import Bools, Floats
from auctune.timeshare.estimators.estimator import Needs
from auctune.timeshare.observation import Observation
from auctune.timeshare.thread import LearningThread


class BalancingRun(Protocol):
    """A balance at work on one bundle."""

    def explored(self, observation: Observation, active: Bools) -> Bools:
        """[k] active threads that share this unit evenly, before any plan; none: plan."""
        ...

    def corrected(self, observation: Observation, needs: Needs) -> Floats:
        """[k] the needs to plan with, in batches: >= 1 or infinite."""
        ...


class Balancing(Protocol):
    """Parameters of a balance: a frozen dataclass."""

    @property
    def name(self) -> str:
        """As tables name it."""
        ...

    def start(self, threads: Sequence[LearningThread]) -> BalancingRun:
        """At work on one bundle."""
        ...
