"""Threads that shared a real pool, played again by another allocator over the losses on record.

A curve is known as far as its thread learned. Beyond that the mixture estimator foretells when it
comes to its target; up to there it falls as a power law, l = a s^-b, through the last loss on
record and the target, and where the target is foretold to be out of reach it stays what it was. A
thread that its owner's cap ended learns nothing more that counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.timeshare import Allocator, LearningThread, LossCurve, play
from auctune.timeshare.estimators.mixture import Mixture

# Points of a curve beyond its record.
_BEYOND = 8
# Longer than anybody trains.
_MOST_BATCHES = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class PastThread:
    """A thread of the pool.

    Attributes:
        learning: when it was there, and what it was to reach.
        batches: [i] learned at the end of each unit of time, rising.
        losses: [i] mean of each.
        rate: N, batches that the whole pool would have learned in a unit.
        counts: whether it went its own way to its end; others only share the pool.
        was_done: whether it came to its target in time.
        was_capped: whether a cap ended it.
    """

    learning: LearningThread
    batches: tuple[int, ...]
    losses: tuple[float, ...]
    rate: float
    counts: bool
    was_done: bool
    was_capped: bool

    def curve(self) -> LossCurve:
        """On record, and beyond it as it is foretold."""
        batches, losses = [float(one) for one in self.batches], list(self.losses)
        if not self.was_done and not self.was_capped:
            more = self._beyond()
            batches += [point for point, _ in more]
            losses += [loss for _, loss in more]
        return LossCurve(np.array(batches), np.array(losses))

    def _beyond(self) -> list[tuple[float, float]]:
        last, loss, target = self.batches[-1], self.losses[-1], self.learning.threshold
        run = Mixture().start()
        for batches, seen in zip(self.batches, self.losses, strict=True):
            run.observe(float(batches), seen)
        need = run.need(target).batches
        if math.isinf(need) or not 0.0 < need < _MOST_BATCHES or loss <= target:
            return []
        ends = np.unique(np.ceil(np.geomspace(last, last + need, _BEYOND + 1)))[1:]
        slope = math.log(loss / target) / math.log(ends[-1] / last)
        falling = [max(target, loss * (end / last) ** -slope) for end in ends]
        # Where the target is reached nothing but rounding may keep it above.
        return list(zip(ends.tolist(), [*falling[:-1], target], strict=True))


@dataclass(frozen=True, slots=True)
class PoolTakings:
    """What a pool came to.

    Attributes:
        num_jobs: that count.
        num_done: of them in time.
        num_foretold: of those that are done, by losses that are on no record.
        units: of time with the whole pool that they took.
    """

    num_jobs: int
    num_done: int
    num_foretold: int
    units: float


def pool_takings(threads: Sequence[PastThread]) -> PoolTakings:
    """What is on record."""
    those = [thread for thread in threads if thread.counts]
    return PoolTakings(
        num_jobs=len(those),
        num_done=sum(thread.was_done for thread in those),
        num_foretold=0,
        units=sum(thread.batches[-1] / thread.rate for thread in those),
    )


def play_again(threads: Sequence[PastThread], allocator: Allocator) -> PoolTakings:
    """What would have come of it by another allocator.

    Args:
        threads: one at least that learned something; times from any unit on.
        allocator: in place of the pool's.
    """
    learning = [thread.learning for thread in threads]
    curves = [thread.curve() for thread in threads]
    outcome = play(allocator, learning, curves, [thread.rate for thread in threads])
    counts = np.array([thread.counts for thread in threads])
    beyond = outcome.samples > np.array([thread.batches[-1] for thread in threads])
    units = outcome.samples / np.array([thread.rate for thread in threads])
    return PoolTakings(
        num_jobs=int(counts.sum()),
        num_done=int((outcome.done & counts).sum()),
        num_foretold=int((outcome.done & counts & beyond).sum()),
        units=float(units[counts].sum()),
    )
