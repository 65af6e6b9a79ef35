"""What earlier bids revealed of the value of compute and memory.

A bid's density is its money per sample of work, and per GB-slot that it would hold on its
quickest type. The range of prices follows quantiles of the densities of the latest bids. They are
taken over at the start of a slot from bids of earlier slots only, so no bid moves its own price.
"""

import math
from collections import deque

import numpy as np

from auctune.domain import Task

# Long enough for quantiles to be steady, short enough to follow a changing demand.
_MEMORY = 2000
_LOW, _HIGH = 0.01, 0.95
# Both resources are priced, and a task needs both: each carries half of its value.
_SHARE = 0.5


class RevealedRange:
    """Prices (low, high) for compute and memory, learned from bids as they come; 0 at first."""

    def __init__(self) -> None:
        self.compute = (0.0, 0.0)
        self.memory = (0.0, 0.0)
        self._compute: deque[float] = deque(maxlen=_MEMORY)
        self._memory: deque[float] = deque(maxlen=_MEMORY)
        self._slot = -1
        self._changed = False

    def start(self, now: int) -> bool:
        """Take over what was seen before slot `now`; whether the ranges changed."""
        if now <= self._slot:
            return False
        self._slot = now
        if not self._changed:
            return False
        self._changed = False
        self.compute = _range(self._compute)
        self.memory = _range(self._memory)
        return True

    def saw(self, task: Task) -> None:
        """Remember a bid; one of 0 says nothing about value."""
        bid = float(task.bid)
        if bid <= 0:
            return
        self._changed = True
        self._compute.append(bid / task.work)
        if task.memory_gb > 0:
            num_cells = math.ceil(task.work / max(task.throughput.values()))
            self._memory.append(bid / (num_cells * task.memory_gb))


def _range(densities: deque[float]) -> tuple[float, float]:
    if not densities:
        return 0.0, 0.0
    low, high = np.quantile(np.array(densities), (_LOW, _HIGH))
    return _SHARE * float(low), _SHARE * float(high)
