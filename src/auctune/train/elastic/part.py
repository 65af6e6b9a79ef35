"""Micro-batches, and what comes of one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A micro-batch: rows `first` to `stop` - 1 of all epochs' rows, at the weights of a step.

    Attributes:
        step: steps that the weights have taken.
        first, stop: places in the job's stream of rows.
    """

    step: int
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


def cut_batch(step: int, start: int, size: int, micro_batch: int) -> list[Part]:
    """A batch as micro-batches of `micro_batch` rows, the last of what is left.

    Args:
        step: of the weights.
        start: the batch's first row.
        size: its rows.
        micro_batch: rows of a part.
    """
    stop = start + size
    return [
        Part(step, first, min(first + micro_batch, stop))
        for first in range(start, stop, micro_batch)
    ]
