"""A worker's arithmetic: the gradient of a micro-batch at given weights, and how good weights are.

Shapes: N samples, C channels, H x W pixels, P parameters.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from auctune.domain import InputError
from auctune.train.edge.descent import Contribution, Floats
from auctune.train.edge.images import Images, ImageShape
from auctune.train.edge.models import make_model
from auctune.train.edge.recipe import Recipe
from auctune.train.reproducible import deterministic, prepare_deterministic

# Samples that go through the model together where no gradient is wanted.
_EVALUATED = 512


def check_device(device: str) -> None:
    """Refuse a device of torch that this machine does not have.

    Raises:
        InputError: naming the option.
    """
    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError("--device", f"{device!r} cannot be used ({reason})", "cpu") from None


class GradientMaker:
    """Computes with one job's model.

    Args:
        recipe: names the model.
        shape: of its images and classes.
        device: of torch.

    Raises:
        InputError: if there is no such model.
    """

    def __init__(self, recipe: Recipe, shape: ImageShape, device: str = "cpu") -> None:
        prepare_deterministic()
        self._model = make_model(recipe.model, shape.image, shape.num_classes, recipe.seed)
        self._model.to(device)
        self._device = device
        self._parameters = list(self._model.parameters())

    @property
    def weights(self) -> Floats:
        """[P], copied."""
        vector = parameters_to_vector(self._parameters).detach()
        copied: Floats = vector.to("cpu", copy=True).numpy()
        return copied

    def set_weights(self, weights: Floats) -> None:
        """Take over weights [P]; they are copied."""
        vector_to_parameters(torch.tensor(weights, device=self._device), self._parameters)

    def named_weights(self) -> dict[str, Floats]:
        """By the names of the model's parameters, in their shapes; copied."""
        named = self._model.named_parameters()
        return {name: value.detach().to("cpu", copy=True).numpy() for name, value in named}

    def compute(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Contribution:
        """The gradient of the sum of the losses of samples, [N, C, H, W] and [N].

        Sums depend on torch's threads: there is one, whoever computes.
        """
        with deterministic(1):
            loss = cross_entropy(
                self._model(self._pixels(images)), self._tensor(labels), reduction="sum"
            )
            gradients = torch.autograd.grad(loss, self._parameters)
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients]).cpu().numpy()
        return Contribution(flat, float(loss.detach()), len(labels))

    @torch.no_grad()
    def evaluate(self, data: Images) -> tuple[float, float]:
        """Mean loss and accuracy."""
        loss = right = 0.0
        with deterministic(1):
            for first in range(0, len(data), _EVALUATED):
                part = slice(first, first + _EVALUATED)
                labels = self._tensor(data.labels[part])
                scores = self._model(self._pixels(data.images[part]))
                loss += float(cross_entropy(scores, labels, reduction="sum"))
                right += float((scores.argmax(dim=1) == labels).sum())
        return loss / len(data), right / len(data)

    def _pixels(self, images: NDArray[np.uint8]) -> Tensor:
        """Bytes to numbers from -1 to 1."""
        return self._tensor(images).float() / 127.5 - 1.0

    def _tensor(self, values: NDArray[np.uint8] | NDArray[np.int64]) -> Tensor:
        # What comes out of an object store may not be written to, of which torch warns.
        return torch.tensor(values, device=self._device)
