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

import math
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
_MAX_DRAWS, _MIN_DRAWS = 3_200, 4


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


@kernel
def first_of_best(
    by_deadline: Ints, distance: Floats, forecast: Floats, slack: Floats, needs: Floats
) -> tuple[int, bool]:
    """Return the first thread of the best order, and whether that is the most likely one.

    Args:
        by_deadline: [i] threads that may learn, one at least.
        distance: [k] to the threshold over what all the time left covers.
        forecast, slack: [k] need and time left, in units.
        needs: [k, m] draws.
    """
    # A stable sort: of equals the one that is due first.
    likely = by_deadline[np.argsort(distance[by_deadline], kind="mergesort")]
    kept, earliest = np.empty(len(slack), dtype=np.bool_), np.empty_like(likely)
    num_kept = choose(by_deadline, forecast, slack, kept)
    at, behind = 0, num_kept
    for k in by_deadline:
        if kept[k]:
            earliest[at] = k
            at += 1
    for k in likely:
        if not kept[k]:
            earliest[behind] = k
            behind += 1
    end = np.empty(needs.shape[1])
    best = threads_done(likely, needs, slack, end)
    thread, is_likely = int(likely[0]), True
    for order in (earliest, by_deadline):
        done = threads_done(order, needs, slack, end)
        if done > best:
            best, thread, is_likely = done, int(order[0]), False
    return thread, is_likely


@kernel
def draw_needs(ahead: Floats, scale: Floats, factors: Floats, drawn: Bools, needs: Floats) -> None:
    """Draw needs of some threads.

    Args:
        ahead: [k] u.
        scale: [k] units of time in which a thread would learn its s batches again.
        factors: [k, m] of u.
        drawn: [k] which threads.
        needs: [k, m] in units; written.
    """
    for k in range(len(ahead)):
        if drawn[k]:
            for m in range(factors.shape[1]):
                needs[k, m] = scale[k] * (math.exp(min(ahead[k] * factors[k, m], MAX_LOG)) - 1.0)


@dataclass(frozen=True, slots=True)
class Rollout:
    """The allocator.

    Attributes:
        estimator: predicts needs.
        spread: sigma, of the logarithm of how far off a forecast in ln s is.
        draws: M, of each thread; fewer where there are more than 50 threads.
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
        batches = np.clip(self._bank.needs(self._bundle.threshold).batches, 1.0, MAX_BATCHES)
        ahead, fresh = np.log1p(batches / samples), observation.fresh
        draw_needs(ahead, samples / rate, self._factors, fresh & seen, self._needs)
        # Of threads that are due no logarithm is read.
        reach = np.log1p(rate * np.maximum(slack, 1.0) / samples)
        thread, is_likely = first_of_best(
            self._bundle.order[active[self._bundle.order]],
            np.where(seen, ahead / reach, 0.0),
            np.where(seen, batches / rate, self._min_units),
            slack,
            self._needs,
        )
        return self._in_slices(thread, active) if is_likely else thread

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
