"""A small network on scikit-learn's digits, trained chunk by chunk in one process.

A job's data are chunks of samples; in a slot it trains some of them for all its epochs. Batches are
those of `auctune.train.data_parallel.batches`, and the gradients of their micro-batches are added
in order, so that this is what workers at any sites would compute. Steps are torch.optim.SGD's:

    v <- momentum v + g,  w <- w - learning_rate v,  v = 0 at first
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from auctune.numerics.rng import stream
from auctune.train.data_parallel.batches import Floats, slot_batches
from auctune.train.reproducible import deterministic

BATCH_SIZE, MICRO_BATCH = 64, 16
_LEARNING_RATE, _MOMENTUM = np.float32(0.05), np.float32(0.9)
_SIDE, _CLASSES = 8, 10

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Samples: images uint8 [N, 1, 8, 8], labels int64 [N]."""

    images: NDArray[np.uint8]
    labels: Ints

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, indices: Ints) -> "Images":
        """Return some of them."""
        return Images(self.images[indices], self.labels[indices])


def digits(seed: int = 0) -> tuple[Images, Images]:
    """Return 1,797 digits: five sixths to train on, and a sixth, drawn by the seed, as a test."""
    found = load_digits()
    images = (found.images * (255.0 / 16.0)).round().astype(np.uint8)[:, None]
    every = Images(images, found.target.astype(np.int64))
    order = stream(seed, "edge", "test").permutation(len(every)).astype(np.int64)
    num_test = len(order) // 6
    return every.at(order[num_test:]), every.at(order[:num_test])


def partition(
    data: Images, num_chunks: int, seed: int = 0, *, by_label: bool = False
) -> list[Images]:
    """Return all samples in chunks that differ by one sample at most.

    Args:
        data: the samples.
        num_chunks: at most their number.
        seed: of their order.
        by_label: whether samples are sorted by their class, by which chunks hold few of them.
    """
    order = stream(seed, "edge", "deal").permutation(len(data))
    if by_label:
        order = order[np.argsort(data.labels[order], kind="stable")]
    return [data.at(part.astype(np.int64)) for part in np.array_split(order, num_chunks)]


class DigitsTraining:
    """A network of two convolutions and one product, and its training on chunks.

    Args:
        chunks: the job's data.
        seed: of the first weights.
    """

    def __init__(self, chunks: list[Images], seed: int = 0) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._model = nn.Sequential(
                nn.Conv2d(1, 8, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(8, 16, 3, stride=2, padding=1),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(16 * (_SIDE // 2) ** 2, _CLASSES),
            )
        self._parameters = list(self._model.parameters())
        self._chunks, self._seed = chunks, seed
        self._velocity: Floats = np.zeros_like(self.weights)

    @property
    def weights(self) -> Floats:
        """The weights [num_parameters], copied."""
        copied: Floats = parameters_to_vector(self._parameters).detach().numpy().copy()
        return copied

    def train(self, chunks: Iterable[int], epochs: int, seed: int | None = None) -> None:
        """Train some chunks for a number of epochs; `seed` is of their order."""
        seed = self._seed if seed is None else seed
        sizes = {chunk: len(self._chunks[chunk]) for chunk in chunks}
        for batch in slot_batches(seed, BATCH_SIZE, MICRO_BATCH, sizes, epochs):
            total: Floats = np.zeros_like(self._velocity)
            for part in batch:
                chunk = self._chunks[part.chunk]
                total += self._gradient(chunk.at(part.indices(seed, len(chunk))))
            gradient = total / np.float32(sum(part.num_rows for part in batch))
            self._velocity = _MOMENTUM * self._velocity + gradient
            weights = self.weights - _LEARNING_RATE * self._velocity
            vector_to_parameters(torch.tensor(weights), self._parameters)

    @torch.no_grad()
    def evaluate(self, data: Images) -> tuple[float, float]:
        """Return mean loss and accuracy."""
        with deterministic(1):
            labels, scores = torch.tensor(data.labels), self._model(_pixels(data))
            loss = float(cross_entropy(scores, labels))
            right = float((scores.argmax(dim=1) == labels).float().mean())
        return loss, right

    def _gradient(self, samples: Images) -> Floats:
        """Return the gradient [num_parameters] of the sum of the samples' losses."""
        with deterministic(1):
            loss = cross_entropy(
                self._model(_pixels(samples)), torch.tensor(samples.labels), reduction="sum"
            )
            gradients = torch.autograd.grad(loss, self._parameters)
        flat: Floats = torch.cat([gradient.reshape(-1) for gradient in gradients]).numpy()
        return flat


def _pixels(data: Images) -> Tensor:
    """Return bytes as numbers from -1 to 1."""
    return torch.tensor(data.images).float() / 127.5 - 1.0
