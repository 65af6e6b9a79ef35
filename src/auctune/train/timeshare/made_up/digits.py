"""Scikit-learn's handwritten digits: 1,797 images of 8 x 8 grey pixels, ten classes.

They come with the library. So few images are learnt by heart in seconds, and the loss of a
network that has done so falls to nothing; CIFAR-10's does not. Each batch's images are therefore
moved by up to a pixel and overlaid with noise, drawn anew: no image is met twice, and the loss
ends on a floor that depends on the network.
"""

from functools import cache

import torch
from torch import Tensor

from auctune.domain.errors import InputError


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Images (1797, 1, 8, 8) of about -1 to 1, and their classes (1797,).

    Raises:
        InputError: if scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            "digits", "scikit-learn is not installed", "pip install 'auctune[timeshare]'"
        ) from None
    pixels, classes = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels).float().view(-1, 1, 8, 8) / 8.0 - 1.0
    return images, torch.from_numpy(classes).long()


class Blur:
    """Moves each image by up to a pixel in each direction, and adds noise.

    Args:
        noise: standard deviation of what is added to a pixel.
    """

    def __init__(self, noise: float) -> None:
        self._noise = noise

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """New images of the same shape (rows, 1, side, side)."""
        rows, _, side, _ = images.shape
        framed = torch.nn.functional.pad(images, (1, 1, 1, 1), value=-1.0)[:, 0]
        down, right = torch.randint(0, 3, (2, rows, 1, 1), generator=generator)
        steps = torch.arange(side)
        moved = framed[torch.arange(rows).view(-1, 1, 1), down + steps.view(-1, 1), right + steps]
        drawn = torch.randn(moved.shape, generator=generator)
        return (moved + self._noise * drawn).unsqueeze(1)
