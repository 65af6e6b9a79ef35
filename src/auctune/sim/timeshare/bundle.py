"""A bundle ready to be played."""

from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Floats
from auctune.timeshare import (
    Allocator,
    BundleOutcome,
    ClairvoyantOptimum,
    LearningThread,
    LossCurve,
    clairvoyant_optimum,
    play,
    true_needs,
)


@dataclass(frozen=True, slots=True, eq=False)
class RecordedBundle:
    """Threads with the curves that they will follow.

    Attributes:
        name: as tables name it.
        threads: of the bundle.
        curves: the loss of each.
        rates: N of each, batches in a unit of time with the whole pool.
    """

    name: str
    threads: tuple[LearningThread, ...]
    curves: tuple[LossCurve, ...]
    rates: tuple[float, ...]

    def play(self, allocator: Allocator) -> BundleOutcome:
        """What an allocator makes of it."""
        return play(allocator, self.threads, self.curves, self.rates)

    def optimum(self) -> ClairvoyantOptimum:
        """The most that anybody could have done, however units cut the noise: an upper bound."""
        needs = true_needs(self.threads, self.curves, self.rates)
        return clairvoyant_optimum(self.threads, needs)

    def attainable(self) -> ClairvoyantOptimum:
        """The most that can be done one thread after another, with the whole pool for each.

        Needs are then whole units of time, up to the first whose mean is at or under the threshold.
        """
        needs = [
            units_alone(curve, rate, thread.threshold)
            for thread, curve, rate in zip(self.threads, self.curves, self.rates, strict=True)
        ]
        return clairvoyant_optimum(self.threads, np.array(needs))


def units_alone(curve: LossCurve, rate: float, threshold: float) -> float:
    """Units of time after which a thread alone on the pool is seen at or under a threshold.

    Looked for as far as the curve was recorded; infinite if it is not reached.
    """
    means = _units(curve, rate)
    under = np.flatnonzero(means <= threshold)
    return float(under[0]) + 1.0 if len(under) else float("inf")


def level_at(curve: LossCurve, rate: float, depth: float) -> float:
    """The mean loss of the unit of time, with the whole pool, at a share of a curve.

    Args:
        curve: the curve.
        rate: N, batches in a unit.
        depth: the share, in (0, 1].

    Raises:
        InputError: if a unit is less than a batch.
    """
    if rate < 1.0:
        raise InputError("rate", f"{rate:g} batches in a unit of time", "one at least")
    means = _units(curve, rate)
    # A hair above, so that the order of sums does not decide whether it is reached.
    return float(means[max(0, int(depth * len(means)) - 1)]) * (1.0 + 1e-9)


def _units(curve: LossCurve, rate: float) -> Floats:
    """[t] mean losses of the units of time of a thread alone; NaN without a batch."""
    # Whole batches, as `play` learns them.
    ends = np.floor(np.arange(max(1, int(curve.num_batches / rate)) + 1) * rate + 1e-9)
    sums = np.interp(ends, np.concatenate([[0.0], curve.batches]), curve.total)
    sums += np.maximum(0.0, ends - curve.num_batches) * curve.loss[-1]
    batches = np.diff(ends)
    means = np.full(len(batches), np.nan)
    np.divide(np.diff(sums), batches, out=means, where=batches > 0)
    return means
