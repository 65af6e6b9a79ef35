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
    return nn.Sequential(
        nn.Conv2d(shape[0], 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5, padding=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
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
