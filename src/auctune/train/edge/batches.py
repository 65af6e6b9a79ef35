"""Which samples make a step, by the seed and the chunks of a slot alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auctune.numerics.rng import stream
from auctune.train.edge.recipe import Recipe

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, order=True)
class MicroBatch:
    """Samples `first` to `stop` - 1 of a chunk, in the order that it has in an epoch."""

    chunk: int
    epoch: int
    first: int
    stop: int

    @property
    def num_samples(self) -> int:
        """Samples in it."""
        return self.stop - self.first


def slot_batches(
    recipe: Recipe, sizes: Mapping[int, int], epochs: int
) -> Iterator[list[MicroBatch]]:
    """The steps of one slot.

    In an epoch each chunk is shuffled and cut, and the cuts of all are shuffled.

    Args:
        recipe: the sizes of batches.
        sizes: samples by chunk; the order of its keys does not matter.
        epochs: passes over these chunks.
    """
    chunks = sorted(sizes)
    per_step = recipe.global_batch // recipe.micro_batch
    for epoch in range(epochs):
        cuts = [
            MicroBatch(chunk, epoch, first, min(first + recipe.micro_batch, sizes[chunk]))
            for chunk in chunks
            for first in range(0, sizes[chunk], recipe.micro_batch)
        ]
        order = stream(recipe.seed, "edge", "cuts", epoch, *chunks).permutation(len(cuts))
        for start in range(0, len(cuts), per_step):
            yield [cuts[index] for index in order[start : start + per_step]]


def samples_of(recipe: Recipe, part: MicroBatch, size: int) -> Ints:
    """Indices within its chunk, of `size` samples, of a micro-batch's samples."""
    order = stream(recipe.seed, "edge", "chunk", part.chunk, part.epoch).permutation(size)
    return order[part.first : part.stop].astype(np.int64)


def deal_out(recipe: Recipe, labels: Ints, num_chunks: int) -> list[Ints]:
    """Samples by chunk: all of them, in chunks that differ by one sample at most.

    Args:
        recipe: its split and seed.
        labels: of all samples, [N].
        num_chunks: at most N.
    """
    order = stream(recipe.seed, "edge", "deal").permutation(len(labels))
    if recipe.split == "by_label":
        order = order[np.argsort(labels[order], kind="stable")]
    return [part.astype(np.int64) for part in np.array_split(order, num_chunks)]
