"""A learning task that shares the pool, its loss curve, and bundles of tasks as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.numerics.arrays import Floats, Ints

# A learning task that shares the pool, and bundles of them as arrays.
#
# Wang et al., "Learning with Adaptive Resource Allocation" (ICML 2024), section 2.1. A unit of
# time t lasts from t to t + 1; a thread may learn in the units start..deadline - 1.


@dataclass(frozen=True, slots=True)
class LearningThread:
    """A task that is to reach a training loss by a deadline.

    Attributes:
        id: its name, of its own in a bundle.
        start: b, the first unit of time in which it can learn.
        deadline: d, by the beginning of which it must be done.
        threshold: eps > 0, the loss of a unit of time at or under which it is done.
    """

    id: str
    start: int
    deadline: int
    threshold: float

    def __post_init__(self) -> None:
        if self.start < 0:
            raise InputError("start", f"{self.start!r}", "a whole number of units >= 0")
        if self.deadline <= self.start:
            expected = f"a whole number of units > start = {self.start}"
            raise InputError("deadline", f"{self.deadline!r}", expected)
        check_positive(self.threshold, "threshold", "a loss > 0")


class BundleArrays(NamedTuple):
    """What is fixed of the threads of a bundle.

    Attributes:
        start, deadline, threshold: [k] of the threads.
        order: [k] threads by deadline; of equals the first first.
    """

    start: Floats
    deadline: Floats
    threshold: Floats
    order: Ints


def bundle_arrays(threads: Sequence[LearningThread]) -> BundleArrays:
    """Return the threads as arrays.

    Raises:
        InputError: if there are none, or two of one id.
    """
    if not threads:
        raise InputError("threads", "is empty", "one thread at least")
    seen: set[str] = set()
    for index, thread in enumerate(threads):
        if thread.id in seen:
            raise InputError(f"threads[{index}].id", f"{thread.id!r} is there twice", "another id")
        seen.add(thread.id)
    deadline = np.array([thread.deadline for thread in threads], dtype=np.float64)
    return BundleArrays(
        start=np.array([thread.start for thread in threads], dtype=np.float64),
        deadline=deadline,
        threshold=np.array([thread.threshold for thread in threads], dtype=np.float64),
        order=np.argsort(deadline, kind="stable").astype(np.int64),
    )


# Recorded loss curves.
#
# A curve is given by bins: up to `batches[i]` batches, from the end of the bin before, the mean
# loss was `loss[i]`. Within a bin it counts as constant, after the last one it stays what it was;
# so the mean over batches n..n' is (L(n') - L(n)) / (n' - n) with L the sum of losses, linear
# within a bin.


@dataclass(frozen=True, slots=True, eq=False)
class LossCurve:
    """The loss of one training run.

    Attributes:
        batches: [i] whole batches done at the end of each bin, > 0 and rising.
        loss: [i] mean loss over each bin, finite.
        total: [i + 1] sum of losses at the end of each bin, 0 before the first.
    """

    batches: Floats
    loss: Floats
    total: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        batches = np.array(self.batches, dtype=np.float64)
        loss = np.array(self.loss, dtype=np.float64)
        if batches.ndim != 1 or loss.shape != batches.shape or not len(batches):
            found = f"shapes {batches.shape} and {loss.shape}"
            raise InputError("batches", found, "as many batches as losses, one at least")
        steps = np.diff(batches, prepend=0.0)
        wrong = np.flatnonzero(~((steps > 0) & (batches == np.floor(batches))))
        if len(wrong):
            row = int(wrong[0])
            raise InputError(f"batches[{row}]", f"{batches[row]:g}", "rising whole numbers > 0")
        wrong = np.flatnonzero(~np.isfinite(loss))
        if len(wrong):
            raise InputError(f"loss[{wrong[0]}]", f"{loss[wrong[0]]}", "a finite number")
        total = np.concatenate([[0.0], np.cumsum(loss * steps)])
        for name, array in (("batches", batches), ("loss", loss), ("total", total)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def num_batches(self) -> int:
        """How far it was recorded."""
        return int(self.batches[-1])

    def mean(self, start: float, end: float) -> float:
        """Mean loss over the batches from `start` up to `end` > start."""
        assert end > start >= 0
        before, after = self.sums(np.array([start, end]))
        return float(after - before) / (end - start)

    def need(self, threshold: float, window: float | None = None) -> float:
        """Return the least batches after which a mean can be at or under a threshold.

        With a window, the first whole number of batches after which the mean over the last `window`
        of them is. Without, those before the first bin that is, and one of its own: no unit of
        time, however its batches are cut, can show the threshold earlier. Infinite if never.

        Args:
            threshold: of the loss.
            window: whole batches, >= 1; None: of a unit of time, any number.
        """
        if window is not None:
            return self._first_window(threshold, window)
        under = np.flatnonzero(self.loss <= threshold)
        if not len(under):
            return float("inf")
        first = int(under[0])
        return (float(self.batches[first - 1]) if first else 0.0) + 1.0

    def _first_window(self, threshold: float, window: float) -> float:
        # The excess of a window's sum over its limit is linear between these whole batches.
        ends = np.concatenate([self.batches, self.batches + window, [window]])
        at = np.unique(np.concatenate([[1.0], ends]))
        # A hair above, so that the order of sums does not decide whether it is reached.
        limit = threshold * (1.0 + 1e-9)
        since = np.maximum(0.0, at - window)
        excess = self.sums(at) - self.sums(since) - limit * (at - since)
        under = np.flatnonzero(excess <= 0.0)
        if not len(under):
            return float("inf")
        first = int(under[0])
        if first == 0:
            return 1.0
        above, below = excess[first - 1], excess[first]
        crossing = at[first - 1] + above / (above - below) * (at[first] - at[first - 1])
        return float(min(np.ceil(crossing - 1e-6), at[first]))

    def sums(self, batches: Floats) -> Floats:
        """Return the sums of losses over the first batches, [i] numbers of them."""
        beyond = np.maximum(0.0, batches - self.batches[-1])
        ends = np.concatenate([[0.0], self.batches])
        sums: Floats = np.interp(batches, ends, self.total) + beyond * self.loss[-1]
        return sums


def unit_rates(
    threads: Sequence[LearningThread],
    curves: Sequence[LossCurve],
    batches_per_unit: Sequence[float],
) -> Floats:
    """[k] batches that the whole pool trains of each thread in a unit of time.

    Raises:
        InputError: if there is not one curve and one N > 0 for each thread.
    """
    rate = np.array(batches_per_unit, dtype=np.float64)
    if not len(curves) == len(rate) == len(threads):
        found = f"{len(curves)} curves and {len(rate)} rates for {len(threads)} threads"
        raise InputError("curves", found, "one of each for each thread")
    if not (np.isfinite(rate) & (rate > 0)).all():
        raise InputError("batches_per_unit", f"{rate.tolist()}", "numbers > 0")
    return rate
