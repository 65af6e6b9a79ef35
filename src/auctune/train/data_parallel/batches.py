"""Micro-batches: which rows they hold, by the job alone, and what a worker makes of one.

The edge's chunks have an order of their own. In an epoch of a slot each chunk is shuffled and cut
into micro-batches of one chunk each, and the micro-batches of all chunks are shuffled. Global
batches are the next `batch_size` rows of them; a micro-batch that does not fit is split.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from auctune.numerics.rng import stream

Floats = NDArray[np.float32]

NO_GRADIENT: Floats = np.zeros(0, np.float32)
"""Gradient of rows that are only evaluated."""


@dataclass(frozen=True, slots=True, order=True)
class RowRange:
    """A micro-batch: rows `first` to `stop` - 1 of all epochs' rows.

    At the end of an epoch, the rows of the validation data follow.

    The first row also says which batch it is of, hence at which weights it is to be computed.
    """

    first: int
    stop: int

    @property
    def num_rows(self) -> int:
        """Rows in it."""
        return self.stop - self.first


def cut_batch(start: int, size: int, micro_batch: int) -> list[RowRange]:
    """Return the `size` rows from `start` on as micro-batches, the last of what is left."""
    stop = start + size
    return [
        RowRange(first, min(first + micro_batch, stop)) for first in range(start, stop, micro_batch)
    ]


@dataclass(frozen=True, slots=True, order=True)
class ChunkRows:
    """A micro-batch of one chunk: its rows `first` to `stop` - 1, as an epoch orders them."""

    chunk: int
    epoch: int
    first: int
    stop: int

    @property
    def num_rows(self) -> int:
        """Rows in it."""
        return self.stop - self.first

    def indices(self, seed: int, size: int) -> NDArray[np.int64]:
        """Return which rows these are, of a chunk of `size` rows."""
        order = stream(seed, "edge", "chunk", self.chunk, self.epoch).permutation(size)
        return order[self.first : self.stop].astype(np.int64)


def slot_batches(
    seed: int, batch_size: int, micro_batch: int, sizes: Mapping[int, int], epochs: int
) -> Iterator[list[ChunkRows]]:
    """Yield the global batches of a slot, each as micro-batches in their order.

    Only the last batch of an epoch has fewer than `batch_size` rows.

    Args:
        seed: of the job.
        batch_size: rows of a global batch.
        micro_batch: rows of a micro-batch at most.
        sizes: rows by chunk; the order of its keys does not matter.
        epochs: passes over these chunks.
    """
    chunks = sorted(sizes)
    for epoch in range(epochs):
        cuts = [
            ChunkRows(chunk, epoch, first, min(first + micro_batch, sizes[chunk]))
            for chunk in chunks
            for first in range(0, sizes[chunk], micro_batch)
        ]
        batch: list[ChunkRows] = []
        room = batch_size
        for index in stream(seed, "edge", "cuts", epoch, *chunks).permutation(len(cuts)):
            cut = cuts[index]
            while cut.num_rows >= room:
                batch.append(replace(cut, stop=cut.first + room))
                yield batch
                cut = replace(cut, first=cut.first + room)
                batch, room = [], batch_size
            if cut.num_rows:
                batch.append(cut)
                room -= cut.num_rows
        if batch:
            yield batch


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """A micro-batch's share of its batch's gradient.

    Attributes:
        gradient: float32 [num_parameters]; empty if the rows are only evaluated.
        loss: sum of the losses of its trained tokens, a float32.
        hits: its trained tokens that were the likeliest one.
        num_targets: T: trained tokens, or pairs. Of a file's rows those of their whole batch, by
            which the gradient is divided already; of a chunk's those of the micro-batch.
        num_tokens: its tokens, prompts included; 0 of rows that are only evaluated.
    """

    gradient: Floats
    loss: float
    hits: int
    num_targets: int
    num_tokens: int = 0
