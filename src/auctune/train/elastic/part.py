"""Micro-batches, and what comes of one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A micro-batch: rows `first` to `stop` - 1 of all epochs' rows.

    The first row also says which batch it is of, hence at which weights it is to be computed.
    """

    first: int
    stop: int

    @property
    def num_rows(self) -> int:
        """Rows in it."""
        return self.stop - self.first


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """A micro-batch's share of its batch's gradient.

    Attributes:
        gradient: float32 [num_parameters], weighted by the tokens of the whole batch.
        loss: sum of the losses of its trained tokens, a float32.
    """

    gradient: NDArray[np.float32]
    loss: float


def cut_batch(start: int, size: int, micro_batch: int) -> list[Part]:
    """The `size` rows from `start` on as parts of `micro_batch` rows, the last of what is left."""
    stop = start + size
    return [
        Part(first, min(first + micro_batch, stop)) for first in range(start, stop, micro_batch)
    ]
