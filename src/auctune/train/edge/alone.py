"""A job trained in one process: what any number of workers at any sites must come to."""

from collections.abc import Iterable, Sequence

import numpy as np

from auctune.train.edge.batches import MicroBatch, samples_of, slot_batches
from auctune.train.edge.descent import Contribution, TrainingState, step
from auctune.train.edge.gradients import GradientMaker
from auctune.train.edge.images import Images
from auctune.train.edge.recipe import Recipe


def compute_part(
    maker: GradientMaker, recipe: Recipe, part: MicroBatch, chunk: Images
) -> Contribution:
    """The gradient of a micro-batch at the weights that the maker has."""
    samples = chunk.at(samples_of(recipe, part, len(chunk)))
    return maker.compute(samples.images, samples.labels)


class Alone:
    """One process that is server and worker.

    Args:
        maker: of the job's model, with its first weights.
        recipe: of the job.
        chunks: the job's data.

    Attributes:
        state: of the training.
    """

    def __init__(self, maker: GradientMaker, recipe: Recipe, chunks: Sequence[Images]) -> None:
        self._maker, self._recipe, self._chunks = maker, recipe, chunks
        self.state = TrainingState.first(maker.weights)

    def train(self, chunks: Iterable[int], epochs: int) -> float:
        """Train some chunks for a number of epochs; returns the mean loss of their last epoch."""
        return self.train_with(self._recipe, chunks, epochs)

    def train_with(self, recipe: Recipe, chunks: Iterable[int], epochs: int) -> float:
        """As `train`, with the steps and orders of another recipe of the same model."""
        sizes = {chunk: len(self._chunks[chunk]) for chunk in chunks}
        loss = 0.0
        for batch in slot_batches(recipe, sizes, epochs):
            self._maker.set_weights(self.state.weights)
            brought = [
                compute_part(self._maker, recipe, part, self._chunks[part.chunk]) for part in batch
            ]
            self.state = step(self.state, brought, recipe)
            if batch[0].epoch == epochs - 1:
                loss += float(np.sum([one.loss for one in brought]))
        return loss / sum(sizes.values())

    def evaluate(self, data: Images) -> tuple[float, float]:
        """Mean loss and accuracy of the weights as they are."""
        self._maker.set_weights(self.state.weights)
        return self._maker.evaluate(data)
