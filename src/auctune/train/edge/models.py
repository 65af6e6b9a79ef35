"""Small convolutional networks. Normalisation is by groups of channels of one sample: by batches,
a gradient would depend on who shared its micro-batch.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from auctune.domain import InputError

Shape = tuple[int, int, int]
"""Channels, height, width."""


class Residual(nn.Module):
    """Two convolutions beside a short cut, which halves the image where it changes channels."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        stride = 1 if inside == outside else 2
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False),
            nn.GroupNorm(4, outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            nn.GroupNorm(4, outside),
        )
        self.short = (
            nn.Identity() if stride == 1 else nn.Conv2d(inside, outside, 1, stride, bias=False)
        )

    def forward(self, images: Tensor) -> Tensor:
        """[N, inside, H, W] to [N, outside, H / stride, W / stride]."""
        return torch.relu(self.body(images) + self.short(images))


class MeanPool(nn.Module):
    """Average pooling to [size, size] with the windows of `nn.AdaptiveAvgPool2d`.

    That one has no deterministic gradient on a GPU. Windows overlap where an image cannot be
    divided, which `nn.AvgPool2d` cannot do, so here they are products with two constant matrices.

    Args:
        size: height and width of the output.
        height, width: of the input.
    """

    rows: Tensor
    columns: Tensor

    def __init__(self, size: int, height: int, width: int) -> None:
        super().__init__()
        self.register_buffer("rows", _windows(size, height), persistent=False)
        self.register_buffer("columns", _windows(size, width), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """[N, C, height, width] to [N, C, size, size]."""
        return self.rows @ images @ self.columns.t()


def _windows(size: int, length: int) -> Tensor:
    """[size, length]: each row is the mean over one window."""
    matrix = torch.zeros(size, length)
    for index in range(size):
        first, last = index * length // size, -(-(index + 1) * length // size)
        matrix[index, first:last] = 1 / (last - first)
    return matrix


def small(shape: Shape, num_classes: int) -> nn.Module:
    """Two convolutions and one product: 3 thousand parameters on digits."""
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * ((height + 1) // 2) * ((width + 1) // 2), num_classes),
    )


def lenet(shape: Shape, num_classes: int) -> nn.Module:
    """LeNet-5's layers, for images of any size from 8 x 8 on."""
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5, padding=2),
        nn.ReLU(),
        MeanPool(4, height // 2, width // 2),
        nn.Flatten(),
        nn.Linear(256, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, num_classes),
    )


def residual(shape: Shape, num_classes: int) -> nn.Module:
    """Three blocks of a residual network."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 3, padding=1, bias=False),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        Residual(16, 16),
        Residual(16, 32),
        Residual(32, 64),
        # To a single number torch takes the mean, which is deterministic.
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, num_classes),
    )


MODELS: dict[str, Callable[[Shape, int], nn.Module]] = {
    "small": small,
    "lenet": lenet,
    "residual": residual,
}


def make_model(name: str, shape: Shape, num_classes: int, seed: int) -> nn.Module:
    """A model with the first weights of a seed; torch's own generator is left as it was.

    Raises:
        InputError: if there is no such model.
    """
    if name not in MODELS:
        raise InputError("model", f"{name!r} is no model", ", ".join(MODELS))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name](shape, num_classes)
