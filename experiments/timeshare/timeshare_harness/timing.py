"""How long a round of an allocator takes while a bundle is played."""

import time
from collections.abc import Sequence
from statistics import median

from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.timeshare import Allocator, AllocatorRun, LearningThread, Observation, Shares

# Rounds that do not count: kernels may be compiled in them.
_WARM_UP = 3


class Timed:
    """An allocator whose rounds are timed."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self.seconds: list[float] = []

    @property
    def name(self) -> str:
        """The allocator's."""
        return self._allocator.name

    def start(self, threads: Sequence[LearningThread]) -> "TimedRun":
        """A run for one bundle."""
        return TimedRun(self._allocator.start(threads), self.seconds)


class TimedRun:
    """An allocator at work, timed."""

    def __init__(self, run: AllocatorRun, seconds: list[float]) -> None:
        self._run, self._seconds = run, seconds

    def allocate(self, observation: Observation) -> Shares:
        """Shares of the allocator."""
        begun = time.perf_counter()
        shares = self._run.allocate(observation)
        self._seconds.append(time.perf_counter() - begun)
        return shares


def round_milliseconds(allocator: Allocator, bundle: RecordedBundle) -> float:
    """Of the median round of one play."""
    timed = Timed(allocator)
    bundle.play(timed)
    return 1e3 * median(timed.seconds[_WARM_UP:] or timed.seconds)
