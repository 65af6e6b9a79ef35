"""Even shares for all active threads, whatever they need."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.timeshare.allocation.relative_shares import share_evenly
from auctune.timeshare.observation import Observation
from auctune.timeshare.planner import is_active
from auctune.timeshare.shares import Shares
from auctune.timeshare.thread import BundleArrays, LearningThread, bundle_arrays


@dataclass(frozen=True, slots=True)
class Uniform:
    """UA."""

    @property
    def name(self) -> str:
        """The paper's, in full."""
        return "uniform"

    def start(self, threads: Sequence[LearningThread]) -> "UniformRun":
        """A run for one bundle."""
        return UniformRun(bundle_arrays(threads))


class UniformRun:
    """UA at work."""

    def __init__(self, bundle: BundleArrays) -> None:
        self._bundle = bundle

    def allocate(self, observation: Observation) -> Shares:
        """Even shares."""
        active = is_active(self._bundle.start, self._bundle.deadline, observation)
        eta = np.zeros(len(active))
        share_evenly(active, eta)
        return Shares(eta)
