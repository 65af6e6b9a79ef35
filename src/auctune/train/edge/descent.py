"""The parameter server's arithmetic: gradients added in a fixed order, gradient descent with
momentum. It is torch.optim.SGD's:

    v <- momentum v + (g + weight_decay w),  w <- w - learning_rate v,  v = 0 at first
"""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auctune.domain.errors import CheckpointError
from auctune.train.edge.recipe import Recipe

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """What comes of a micro-batch.

    Attributes:
        gradient: float32 [num_parameters], the sum over its samples.
        loss: likewise.
        num_samples: of it.
    """

    gradient: Floats
    loss: float
    num_samples: int


@dataclass(frozen=True, slots=True, eq=False)
class TrainingState:
    """All that training goes on from.

    Attributes:
        weights, velocity: float32 [num_parameters].
        steps: taken so far.
    """

    weights: Floats
    velocity: Floats
    steps: int = 0

    @classmethod
    def first(cls, weights: Floats) -> "TrainingState":
        """Before the first step."""
        return cls(weights, np.zeros_like(weights))

    def to_bytes(self) -> bytes:
        """As a file."""
        file = io.BytesIO()
        np.savez(file, weights=self.weights, velocity=self.velocity, steps=self.steps)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "TrainingState":
        """What `to_bytes` wrote.

        Raises:
            CheckpointError: if it is damaged.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as saved:
                return cls(saved["weights"], saved["velocity"], int(saved["steps"]))
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"a checkpoint is damaged ({error})") from None


def mean_loss(contributions: Sequence[Contribution]) -> float:
    """Return the mean loss over the samples of a global batch."""
    samples = sum(one.num_samples for one in contributions)
    return float(np.sum([one.loss for one in contributions])) / samples


def step(
    state: TrainingState, contributions: Sequence[Contribution], recipe: Recipe
) -> TrainingState:
    """The state after a global batch, whose micro-batches come in their order."""
    total: Floats = np.zeros_like(state.weights)
    for one in contributions:
        total += one.gradient
    gradient: Floats = total / np.float32(sum(one.num_samples for one in contributions))
    if recipe.weight_decay:
        gradient += np.float32(recipe.weight_decay) * state.weights
    velocity: Floats = np.float32(recipe.momentum) * state.velocity + gradient
    weights: Floats = state.weights - np.float32(recipe.learning_rate) * velocity
    return TrainingState(weights, velocity, state.steps + 1)
