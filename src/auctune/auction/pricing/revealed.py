"""What earlier bids revealed of the value of compute and memory.

A bid's density is its money per sample of work, and per GB-slot that it would hold on its
quickest type. The range of prices follows quantiles of the densities of the latest bids. They are
taken over at the start of a slot from bids of earlier slots only, so no bid moves its own price.
"""

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from auctune.domain import Saved, Task

Range = tuple[float, float]

# Long enough for quantiles to be steady, short enough to follow a changing demand.
_MEMORY = 2000
_LOW, _HIGH = 0.01, 0.95
# Both resources are priced, and a task needs both: each carries half of its value.
_SHARE = 0.5


class RevealedRange:
    """Prices (low, high) for compute and memory, learned from bids as they come; 0 at first.

    Attributes:
        compute, memory: the prices.
        is_new: whether bids were seen since they were learned.
    """

    def __init__(self) -> None:
        self.compute = (0.0, 0.0)
        self.memory = (0.0, 0.0)
        self._compute: deque[float] = deque(maxlen=_MEMORY)
        self._memory: deque[float] = deque(maxlen=_MEMORY)
        self.is_new = False

    def learn(self) -> tuple[Range, Range]:
        """What has been seen by now says so, for compute and memory; it is not taken over yet."""
        return _range(self._compute), _range(self._memory)

    def learned(self, compute: Range, memory: Range) -> None:
        """Take over what was learned from the bids seen by now."""
        self.compute, self.memory = compute, memory
        self.is_new = False

    def saw(self, task: Task) -> None:
        """Remember a bid; one of 0 says nothing about value."""
        bid = float(task.bid)
        if bid <= 0:
            return
        self.is_new = True
        self._compute.append(bid / task.work)
        if task.memory_gb > 0:
            num_cells = math.ceil(task.work / max(task.throughput.values()))
            self._memory.append(bid / (num_cells * task.memory_gb))

    def save(self) -> Saved:
        """The ranges and the densities that they will follow."""
        return {
            "compute": list(self.compute),
            "memory": list(self.memory),
            "compute_densities": np.array(self._compute),
            "memory_densities": np.array(self._memory),
            "is_new": self.is_new,
        }

    def load(self, saved: Saved) -> None:
        """Take over what was saved."""
        self.compute = _as_range(saved["compute"])
        self.memory = _as_range(saved["memory"])
        self._compute = deque(saved["compute_densities"].tolist(), maxlen=_MEMORY)
        self._memory = deque(saved["memory_densities"].tolist(), maxlen=_MEMORY)
        self.is_new = bool(saved["is_new"])


def _as_range(numbers: Sequence[float]) -> Range:
    low, high = numbers
    return low, high


def _range(densities: deque[float]) -> Range:
    if not densities:
        return 0.0, 0.0
    low, high = np.quantile(np.array(densities), (_LOW, _HIGH))
    return _SHARE * float(low), _SHARE * float(high)
