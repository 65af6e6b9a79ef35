"""All for the active thread with the nearest deadline, whatever it needs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.timeshare.allocation.relative_shares import give_all
from auctune.timeshare.observation import Observation
from auctune.timeshare.planner import is_active
from auctune.timeshare.shares import Shares
from auctune.timeshare.thread import BundleArrays, LearningThread, bundle_arrays


@dataclass(frozen=True, slots=True)
class ShortestFirst:
    """STF."""

    @property
    def name(self) -> str:
        """The paper's."""
        return "stf"

    def start(self, threads: Sequence[LearningThread]) -> "ShortestFirstRun":
        """A run for one bundle."""
        return ShortestFirstRun(bundle_arrays(threads))


class ShortestFirstRun:
    """STF at work."""

    def __init__(self, bundle: BundleArrays) -> None:
        self._bundle = bundle

    def allocate(self, observation: Observation) -> Shares:
        """All for one; of equal deadlines the first thread's."""
        active = is_active(self._bundle.start, self._bundle.deadline, observation)
        eta = np.zeros(len(active))
        if active.any():
            give_all(self._bundle.deadline, active, eta)
        return Shares(eta)
