"""EDF over the threads that can be done, and LaiRA while deadlines are close: auctune's own.

Each unit of time:

1. Predict the need of each thread, in units of the whole pool. A thread is likely to be done if its
   need fits the time left; otherwise it is in doubt, and needs all of its time left, until even the
   low decile of its need exceeds that by a factor that falls as more of the thread is seen. Then it
   is out of reach. One that was hardly seen needs next to nothing, so that it is observed when its
   turn comes, with the whole pool.
2. Choose the set C: as many likely threads as can be done in time (Moore and Hodgson's rule), and
   threads in doubt that still fit with all of these. So a hopeless thread with the nearest
   deadline, whose need is underestimated, takes no time that a likely one needs.
3. Give the pool to the thread of C that is due first: preemptive EDF. Shares that are just enough,
   as LARA's, make every thread late when needs were underestimated; one after another, only one is.

While the deadlines of all threads are close together, who is first hardly decides who is late, and
who is served at all does. If there is also time to see every thread, or with C empty, the pool
follows LaiRA: slices for the thread that progresses most for what it must, of those that its
look-ahead finds in reach. A slice doubles what the thread has learned: prediction is over ln s, and
slices of one length spread the last hours among threads of which none is then done.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from auctune.domain.checks import check_finite
from auctune.numerics.arrays import Bools, Floats, Ints
from auctune.numerics.jit import kernel
from auctune.timeshare.allocation.moore_hodgson import TOLERANCE, pop, push
from auctune.timeshare.allocator import Observation, Shares
from auctune.timeshare.estimators.estimator import Estimator
from auctune.timeshare.estimators.mixture import Mixture
from auctune.timeshare.laira import Laira, LairaRun
from auctune.timeshare.planner import is_active
from auctune.timeshare.thread import LearningThread, bundle_arrays

# Units of time that a thread learned in before its need is believed.
_SEEN = 8
# By how much, divided by the units that a thread learned in, a low decile may exceed its time left.
_DOUBT = 8.0
# Share of the least time left that a slice for each unseen thread may take.
_EXPLORED = 0.25


@kernel
def choose_likely(
    order: Ints, need: Floats, likely: Bools, left: Floats, kept: Bools, heaps: Ints
) -> int:
    """Choose the most likely threads, and others beside them; return how many.

    Moore and Hodgson's rule, but the longest thread in doubt is dropped first: of the likely
    threads the same ones are kept as without those in doubt.

    Args:
        order: [k] threads by due date.
        need: [k] p, infinite for those that are not to be done.
        likely: [k] whether a thread's need fits its time left.
        left: [k] d_k - d_0.
        kept: [k] whether a thread is in C; written.
        heaps: [2, k] scratch.
    """
    sizes, total = np.zeros(2, dtype=np.int64), 0.0
    kept[:] = False
    for k in order:
        if not need[k] < np.inf:
            continue
        own = 1 if likely[k] else 0
        push(heaps[own], sizes[own], need, k)
        sizes[own] += 1
        total += need[k]
        kept[k] = True
        while total > left[k] + TOLERANCE * (1.0 + abs(left[k])):
            own = 0 if sizes[0] else 1
            dropped = pop(heaps[own], sizes[own], need)
            sizes[own] -= 1
            kept[dropped] = False
            total -= need[dropped]
    return int(sizes.sum())


@dataclass(frozen=True, slots=True)
class Edf:
    """The allocator.

    Attributes:
        estimator: predicts needs.
        near: least time left over the greatest from which on deadlines are close; above 1: never.
    """

    estimator: Estimator = field(default_factory=Mixture)
    near: float = 0.3

    def __post_init__(self) -> None:
        check_finite(self.near, "near", "a number >= 0")

    @property
    def name(self) -> str:
        return f"edf({self.estimator.name})"

    def start(self, threads: Sequence[LearningThread]) -> "EdfRun":
        return EdfRun(self, threads)


# Slices follow from the thread's own past, not from errors of others, so that a pool shares alike
# whether it saw jobs that are gone.
_CLOSE = Laira(proportional=0.0, derivative=0.0, growth=1.0)


class EdfRun:
    """The allocator at work."""

    def __init__(self, params: Edf, threads: Sequence[LearningThread]) -> None:
        self._near, self._bundle = params.near, bundle_arrays(threads)
        self._bank = params.estimator.start_bank(len(threads))
        self._close = LairaRun(_CLOSE, threads)
        self._units = np.zeros(len(threads))

    def allocate(self, observation: Observation) -> Shares:
        self._bank.observe(observation.samples, observation.loss, observation.fresh)
        self._close.observe(observation)
        self._units += observation.fresh
        active = is_active(self._bundle.start, self._bundle.deadline, observation)
        eta = np.zeros(len(active))
        if active.any():
            left = np.where(active, self._bundle.deadline - observation.time, np.inf)
            due = -1 if self._is_close(active, left) else self._earliest(observation, active, left)
            eta[due if due >= 0 else self._close.turn(observation, active)] = 1.0
        return Shares(eta)

    def _is_close(self, active: Bools, left: Floats) -> bool:
        exploring = _CLOSE.units * np.count_nonzero(active & (self._units < _SEEN))
        least = left.min()
        return bool(least >= self._near * left[active].max() and exploring <= _EXPLORED * least)

    def _earliest(self, observation: Observation, active: Bools, left: Floats) -> int:
        """Return the thread of C that is due first; -1 if C is empty."""
        rate, num = observation.batches_per_unit, len(left)
        needs = self._bank.needs(self._bundle.threshold)
        units, low = needs.batches / rate, needs.low / rate
        unseen = self._units < _SEEN
        likely = unseen | (units <= left)
        in_doubt = low <= (1.0 + _DOUBT / np.maximum(self._units, 1.0)) * left
        need = np.where(likely, np.where(unseen, 0.0, units), np.where(in_doubt, left, np.inf))
        need = np.where(active, np.maximum(need, 1.0 / rate), np.inf)
        kept, heaps = np.empty(num, dtype=np.bool_), np.empty((2, num), dtype=np.int64)
        if not choose_likely(self._bundle.order, need, likely, left, kept, heaps):
            return -1
        return int(np.argmin(np.where(kept, left, np.inf)))
