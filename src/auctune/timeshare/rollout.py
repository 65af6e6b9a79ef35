"""Rollouts over three orders of the threads: auctune's own allocator.

At the beginning of each unit of time (Bertsekas, Tsitsiklis and Wu, "Rollout algorithms for
combinatorial optimization", Journal of Heuristics 1997):

1. Draw needs. Losses fall over ln s, so that a forecast S says how far ahead a threshold is there,
   u = ln(1 + S / s), and it errs by a factor at all stages of training alike: M draws are
   s (exp(u e^(sigma z)) - 1), z normal. A thread that was hardly seen needs a first slice.
2. Play three orders on each draw, every thread until it is done or due, as in the pool too nobody
   knows when it will be done:

   - the most likely first: the least u over ln(1 + N (d - tau) / s), what all of its time left
     covers; this is LaiRA's ratio of required to predicted rate;
   - EDF: Moore and Hodgson's set C for the forecasts by due date, then the others;
   - STF: all by due date.
3. Follow the order by which most threads are done on average; of equals the first one above.

So deadlines far apart are served as they come, and a thread that may block the others is not. By
likelihood the pool is given in slices, each of which doubles what the thread has learned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from auctune.domain.checks import check_count, check_finite
from auctune.numerics.arrays import Bools, Floats, Ints
from auctune.numerics.jit import kernel
from auctune.numerics.rng import stream
from auctune.timeshare.allocation.moore_hodgson import choose
from auctune.timeshare.allocator import Observation, Shares
from auctune.timeshare.estimators.estimator import MAX_BATCHES, MAX_LOG, Estimator
from auctune.timeshare.estimators.wls import Wls
from auctune.timeshare.planner import is_active
from auctune.timeshare.thread import LearningThread, bundle_arrays

# Draws of all threads together that a round has time for, and the fewest of a thread.
_MAX_DRAWS, _MIN_DRAWS = 6_400, 8


@kernel
def threads_done(order: Ints, needs: Floats, slack: Floats, end: Floats) -> int:
    """Return how many threads an order does in all draws together.

    Args:
        order: [i] threads, served one after another until they are done or due.
        needs: [k, m] draws, in units of the whole pool.
        slack: [k] units until the deadline.
        end: [m] scratch.
    """
    done = 0
    end[:] = 0.0
    for k in order:
        need, due = needs[k], slack[k]
        for m in range(len(end)):
            finish = end[m] + need[m]
            in_time = finish <= due
            done += in_time
            end[m] = finish if in_time else max(end[m], due)
    return done


@dataclass(frozen=True, slots=True)
class Rollout:
    """The allocator.

    Attributes:
        estimator: predicts needs.
        spread: sigma, of the logarithm of how far off a forecast in ln s is.
        draws: M, of each thread; fewer where there are more than 100 threads.
        units: of a first slice, until a forecast counts.
        seed: of the draws.
    """

    estimator: Estimator = field(default_factory=Wls)
    spread: float = 0.6
    draws: int = 64
    units: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        check_finite(self.spread, "spread", "a number >= 0")
        check_count(self.draws, "draws", 1)
        check_count(self.units, "units", 1)
        check_count(self.seed, "seed", 0)

    @property
    def name(self) -> str:
        return f"rollout({self.estimator.name})"

    def start(self, threads: Sequence[LearningThread]) -> "RolloutRun":
        return RolloutRun(self, threads)


class RolloutRun:
    """The allocator at work."""

    def __init__(self, params: Rollout, threads: Sequence[LearningThread]) -> None:
        num = len(threads)
        self._bundle = bundle_arrays(threads)
        self._bank = params.estimator.start_bank(num)
        self._min_units, self._units = params.units, np.zeros(num)
        draws = min(params.draws, max(_MIN_DRAWS, _MAX_DRAWS // num))
        errors = [params.spread * NormalDist().inv_cdf((m + 0.5) / draws) for m in range(draws)]
        random = stream(params.seed, "rollout")
        self._factors = random.permuted(np.tile(np.exp(errors), (num, 1)), axis=1)
        self._needs = np.full((num, draws), float(params.units))
        # The thread that learned last, and for how many units of its slice.
        self._last, self._run = -1, 0

    def allocate(self, observation: Observation) -> Shares:
        self._bank.observe(observation.samples, observation.loss, observation.fresh)
        self._units += observation.fresh
        learned = int(np.argmax(observation.fresh)) if observation.fresh.any() else -1
        self._run = self._run + 1 if learned == self._last else 1
        self._last = learned
        active = is_active(self._bundle.start, self._bundle.deadline, observation)
        eta = np.zeros(len(active))
        if active.any():
            eta[self._next_thread(observation, active)] = 1.0
        return Shares(eta)

    def _next_thread(self, observation: Observation, active: Bools) -> int:
        rate, samples = observation.batches_per_unit, np.maximum(observation.samples, 1.0)
        slack, seen = self._bundle.deadline - observation.time, self._units >= self._min_units
        batches = self._bank.needs(self._bundle.threshold).batches
        ahead = np.log1p(np.clip(batches, 1.0, MAX_BATCHES) / samples)
        for k in np.flatnonzero(observation.fresh & seen):
            drawn = np.minimum(ahead[k] * self._factors[k], MAX_LOG)
            self._needs[k] = samples[k] / rate[k] * np.expm1(drawn)
        # Of threads that are due no logarithm is read.
        reach = np.log1p(rate * np.maximum(slack, 1.0) / samples)
        likely = np.lexsort((self._bundle.deadline, np.where(seen, ahead / reach, 0.0)))
        likely, by_deadline = (
            order[active[order]] for order in (likely.astype(np.int64), self._bundle.order)
        )
        need = np.where(seen, np.maximum(batches, 1.0) / rate, self._min_units)
        kept = np.empty(len(need), dtype=np.bool_)
        choose(by_deadline, need, slack, kept)
        earliest = np.concatenate([by_deadline[kept[by_deadline]], likely[~kept[likely]]])
        end = np.empty(self._needs.shape[1])
        orders = (likely, earliest, by_deadline)
        best = np.argmax([threads_done(order, self._needs, slack, end) for order in orders])
        thread = int(orders[best][0])
        return thread if best else self._in_slices(thread, active)

    def _in_slices(self, thread: int, active: Bools) -> int:
        """Return the last thread as long as its slice lasts, then another one's first."""
        last = self._last
        if last >= 0 and active[last]:
            learned_before = self._units[last] - self._run
            if self._run < max(self._min_units, learned_before):
                return last
        if thread == last:
            self._run = 0
        return thread
