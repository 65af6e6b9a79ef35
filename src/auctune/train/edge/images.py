"""Labelled images: scikit-learn's digits, and data sets in folders of the user's.

Shapes: N samples, C channels, H x W pixels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auctune.domain import InputError
from auctune.numerics.rng import stream
from auctune.train.edge.image_folders import Labelled, caltech101, cifar10, tiny_imagenet
from auctune.train.edge.recipe import Recipe


@dataclass(frozen=True, slots=True)
class ImageShape:
    """What a model must know of images.

    Attributes:
        image: channels, height, width.
        num_classes: labels are 0 to `num_classes` - 1.
    """

    image: tuple[int, int, int]
    num_classes: int


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Samples.

    Attributes:
        images: uint8 [N, C, H, W].
        labels: int64 [N].
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, indices: NDArray[np.int64]) -> "Images":
        """Some of them."""
        return Images(self.images[indices], self.labels[indices])

    @property
    def num_bytes(self) -> int:
        """That they take."""
        return self.images.nbytes + self.labels.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """Samples to train on, and others to measure by."""

    train: Images
    test: Images
    shape: ImageShape


def read_data(recipe: Recipe) -> DataSet:
    """The data of a recipe.

    Raises:
        InputError: if there are none such, or their folder is not as it should be.
    """
    if recipe.data == "digits":
        return digits(recipe.seed)
    if recipe.data not in FOLDERS:
        raise InputError("data", f"{recipe.data!r}", ", ".join(("digits", *FOLDERS)))
    folder = Path(recipe.folder)
    if not folder.is_dir():
        raise InputError("folder", f"{recipe.folder!r} is no folder", f"that of {recipe.data}")
    train, test = FOLDERS[recipe.data](folder, recipe.image_size)
    return _data_set(Images(*train), Images(*test) if test else None, recipe.seed)


def digits(seed: int = 0) -> DataSet:
    """1,797 digits of 8 x 8 pixels; a sixth of them, drawn by the seed, to measure by."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images = (found.images * (255.0 / 16.0)).round().astype(np.uint8)[:, None]
    return _data_set(Images(images, found.target.astype(np.int64)), None, seed)


FOLDERS: dict[str, Callable[[Path, int], tuple[Labelled, Labelled | None]]] = {
    "cifar10": cifar10,
    "caltech101": caltech101,
    "tiny-imagenet": tiny_imagenet,
}


def _data_set(train: Images, test: Images | None, seed: int) -> DataSet:
    num_classes = int(train.labels.max()) + 1
    if test is None:
        order = stream(seed, "edge", "test").permutation(len(train)).astype(np.int64)
        num_test = max(1, len(order) // 6)
        train, test = train.at(order[num_test:]), train.at(order[:num_test])
    _, channels, height, width = train.images.shape
    return DataSet(train, test, ImageShape((channels, height, width), num_classes))
