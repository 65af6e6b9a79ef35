"""EDF over the threads that can be done, and LaiRA while deadlines are close: auctune's own.

Each unit of time:

1. Predict the need of each thread, in units of the whole pool, and whether it is certain to fit the
   time left: certain by an estimator that errs upward (WLS); of others the need is that of one that
   errs little (the mixture). A thread is out of reach when even the low decile of its need exceeds
   the time left by a factor that falls as more of it is seen. One that was hardly seen needs next
   to nothing, so that it is observed when its turn comes, with the whole pool.
2. Choose the set C: as many certain threads as can be done in time (Moore and Hodgson's rule), and
   uncertain ones that still fit with all of these. So a hopeless thread with the nearest deadline,
   whose need is underestimated, takes no time that a certain one needs.
3. Give the pool to the thread of C that is due first: preemptive EDF. Shares that are just enough,
   as LARA's, make every thread late when needs were underestimated; one after another, only one is.

While the deadlines of all threads are close together, who is first hardly decides who is late, and
who is served at all does. Then, or with C empty, the pool follows LaiRA: slices for the thread that
progresses most for what it must, of those that its look-ahead finds in reach.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from auctune.domain.checks import check_count, check_finite
from auctune.numerics.arrays import Bools, Floats, Ints
from auctune.numerics.jit import kernel
from auctune.timeshare.allocation.moore_hodgson import TOLERANCE, pop, push
from auctune.timeshare.allocator import Observation, Shares
from auctune.timeshare.estimators.estimator import Estimator
from auctune.timeshare.estimators.mixture import Mixture
from auctune.timeshare.estimators.wls import Wls
from auctune.timeshare.laira import Laira, LairaRun
from auctune.timeshare.planner import is_active
from auctune.timeshare.thread import LearningThread, bundle_arrays


@kernel
def choose_certain(
    order: Ints, need: Floats, certain: Bools, left: Floats, kept: Bools, heaps: Ints
) -> int:
    """Choose the most certain threads, and uncertain ones beside them; return how many.

    Moore and Hodgson's rule, but the longest uncertain thread is dropped first: of the certain
    threads the same ones are kept as without the uncertain ones.

    Args:
        order: [k] threads by due date.
        need: [k] p, infinite for those that are not to be done.
        certain: [k] whether a thread is sure to fit.
        left: [k] d_k - d_0.
        kept: [k] whether a thread is in C; written.
        heaps: [2, k] scratch.
    """
    sizes, total = np.zeros(2, dtype=np.int64), 0.0
    kept[:] = False
    for k in order:
        if not need[k] < np.inf:
            continue
        own = 1 if certain[k] else 0
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
        need: predicts needs.
        feasibility: errs upward; a thread is certain where its need by this one fits.
        close: shares the pool while deadlines are close; in slices of one length, so that a pool
            shares alike whether it saw jobs that are gone.
        units: of time that a thread learned in before its need is believed.
        doubt: by how much, divided by those units, a low decile may exceed the time left.
        near: least time left over the greatest from which on deadlines are close; above 1: never.
    """

    need: Estimator = field(default_factory=Mixture)
    feasibility: Estimator = field(default_factory=Wls)
    close: Laira = field(default_factory=lambda: Laira(proportional=0.0, derivative=0.0))
    units: int = 8
    doubt: float = 8.0
    near: float = 0.5

    def __post_init__(self) -> None:
        check_count(self.units, "units", 1)
        check_finite(self.doubt, "doubt", "a number >= 0")
        check_finite(self.near, "near", "a number >= 0")

    @property
    def name(self) -> str:
        return f"edf({self.need.name},{self.feasibility.name})"

    def start(self, threads: Sequence[LearningThread]) -> "EdfRun":
        return EdfRun(self, threads)


class EdfRun:
    """The allocator at work."""

    def __init__(self, params: Edf, threads: Sequence[LearningThread]) -> None:
        num = len(threads)
        self._params, self._bundle = params, bundle_arrays(threads)
        self._need = params.need.start_bank(num)
        self._feasibility = params.feasibility.start_bank(num)
        self._close = LairaRun(params.close, threads)
        self._units = np.zeros(num)

    def allocate(self, observation: Observation) -> Shares:
        for bank in (self._need, self._feasibility):
            bank.observe(observation.samples, observation.loss, observation.fresh)
        self._close.observe(observation)
        self._units += observation.fresh
        active = is_active(self._bundle.start, self._bundle.deadline, observation)
        eta = np.zeros(len(active))
        if active.any():
            left = np.where(active, self._bundle.deadline - observation.time, np.inf)
            is_close = left.min() >= self._params.near * left[active].max()
            due = -1 if is_close else self._earliest(observation, active, left)
            eta[due if due >= 0 else self._close.turn(observation, active)] = 1.0
        return Shares(eta)

    def _earliest(self, observation: Observation, active: Bools, left: Floats) -> int:
        """Return the thread of C that is due first; -1 if C is empty."""
        num = len(left)
        need, certain = self._predicted(observation, active, left)
        kept, heaps = np.empty(num, dtype=np.bool_), np.empty((2, num), dtype=np.int64)
        if not choose_certain(self._bundle.order, need, certain, left, kept, heaps):
            return -1
        return int(np.argmin(np.where(kept, left, np.inf)))

    def _predicted(
        self, observation: Observation, active: Bools, left: Floats
    ) -> tuple[Floats, Bools]:
        """[k] needs in units of time, infinite where out of reach, and which are certain."""
        params, rate = self._params, observation.batches_per_unit
        needs = self._need.needs(self._bundle.threshold)
        safe = self._feasibility.needs(self._bundle.threshold).batches / rate
        favour = 1.0 + params.doubt / np.maximum(self._units, 1.0)
        doubtful = np.where(needs.low / rate <= favour * left, left, np.inf)
        uncertain = np.where(needs.batches / rate <= left, needs.batches / rate, doubtful)
        certain = safe <= left
        unseen = self._units < params.units
        need = np.where(unseen, 0.0, np.where(certain, safe, uncertain))
        return np.where(active, np.maximum(need, 1.0 / rate), np.inf), certain | unseen
