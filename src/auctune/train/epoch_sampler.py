"""Sampler of row indices: an order of the rows for each epoch, and a position in it.

The order of an epoch is a pure function of (seed, epoch, number of rows): rows are sorted by a
64-bit hash of their index. It depends on no generator's state and no library's version, so that
a job resumed anywhere sees the same rows.

The hash is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014), applied once for each of seed, epoch and row.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auctune.domain.errors import CheckpointError

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)


def epoch_order(num_rows: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the order of the rows in an epoch: a permutation of 0 .. num_rows - 1, int64."""
    keys = np.arange(num_rows, dtype=np.uint64)
    for part in (seed, epoch):
        keys = _mix(keys ^ _mix(np.array([part % 2**64], dtype=np.uint64)))
    return np.argsort(keys, kind="stable").astype(np.int64)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = values + GOLDEN
    values = (values ^ (values >> np.uint64(30))) * MIX_1
    values = (values ^ (values >> np.uint64(27))) * MIX_2
    return values ^ (values >> np.uint64(31))


class EpochSampler:
    """Position in the rows of all epochs, one after the other.

    Args:
        num_rows: rows of the data set, >= 1.
        epochs: passes over it, >= 1.
        seed: of the order of each epoch.
        done: rows taken so far, over all epochs.
    """

    def __init__(self, num_rows: int, epochs: int, seed: int, done: int = 0) -> None:
        if num_rows < 1 or epochs < 1:
            raise ValueError(f"{num_rows} rows, {epochs} epochs; expected 1 of each at least")
        if not 0 <= done <= num_rows * epochs:
            raise ValueError(f"done = {done}; expected 0 to {num_rows * epochs}")
        self.num_rows = num_rows
        self.epochs = epochs
        self.seed = seed
        self.done = done
        # Two, as a batch may begin in one epoch and end in the next.
        self._order = lru_cache(maxsize=2)(lambda epoch: epoch_order(num_rows, seed, epoch))

    @property
    def total(self) -> int:
        """Rows of all epochs together."""
        return self.num_rows * self.epochs

    @property
    def remaining(self) -> int:
        """Remaining rows, over all epochs."""
        return self.total - self.done

    @property
    def epoch(self) -> int:
        """The epoch of the next row, from 0; the number of epochs once all rows are taken."""
        return self.done // self.num_rows

    def next_indices(self, count: int) -> list[int]:
        """Return indices of the next `count` rows, or the remaining ones; they count as done."""
        rows = self.indices(self.done, min(self.done + count, self.total))
        self.done += len(rows)
        return rows

    def indices(self, start: int, stop: int) -> list[int]:
        """Return indices of rows number `start` to `stop` - 1 of all epochs' rows."""
        if not 0 <= start <= stop <= self.total:
            raise ValueError(f"rows {start} to {stop}; expected within 0 to {self.total}")
        rows: list[int] = []
        while start < stop:
            epoch, first = divmod(start, self.num_rows)
            last = min(self.num_rows, first + stop - start)
            rows += self._order(epoch)[first:last].tolist()
            start += last - first
        return rows

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`, as JSON can hold it, with the current epoch's order."""
        return {
            "num_rows": self.num_rows,
            "epochs": self.epochs,
            "seed": self.seed,
            "done": self.done,
            "order": self._order(min(self.epoch, self.epochs - 1)).tolist(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go to the position of a state.

        Raises:
            CheckpointError: if it belongs to other rows, epochs or another seed, or if the order
                of its epoch is not that of this sampler.
        """
        mine = {"num_rows": self.num_rows, "epochs": self.epochs, "seed": self.seed}
        for name, value in mine.items():
            if state.get(name) != value:
                raise CheckpointError(
                    f"cursor: {name} is {state.get(name)!r} in the checkpoint, {value} here"
                )
        done = state.get("done")
        if not isinstance(done, int) or not 0 <= done <= self.total:
            raise CheckpointError(f"cursor: done is {done!r}; expected 0 to {self.total}")
        restored = EpochSampler(self.num_rows, self.epochs, self.seed, done)
        if state.get("order") != restored.state()["order"]:
            raise CheckpointError(f"cursor: the order of epoch {restored.epoch} differs")
        self.done = done
