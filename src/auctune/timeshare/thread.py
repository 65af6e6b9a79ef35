"""A learning task that shares the pool, and bundles of them as arrays.

Wang et al., "Learning with Adaptive Resource Allocation" (ICML 2024), section 2.1. A unit of time t
lasts from t to t + 1; a thread may learn in the units start..deadline - 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.timeshare.arrays import Floats, Ints


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
    """The threads as arrays.

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
