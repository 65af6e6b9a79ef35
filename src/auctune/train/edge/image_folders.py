"""Data sets as their makers hand them out, unpacked in a folder; nothing is downloaded.

| data | in the folder |
| --- | --- |
| CIFAR-10, binary version | data_batch_1.bin to data_batch_5.bin, test_batch.bin |
| Caltech101 | a folder of images for each class |
| Tiny-ImageNet | train/CLASS/images/, val/images/, val/val_annotations.txt |

Samples are in the order of their files' names, so that a seed draws the same on each machine.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from auctune.domain import InputError

Labelled = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Images [N, C, H, W] and labels [N]."""

_SUFFIXES = {".jpg", ".jpeg", ".png"}
# A label and three colours of 32 x 32 pixels.
_CIFAR_RECORD = 1 + 3 * 32 * 32
_CIFAR_CLASSES = 10


def cifar10(folder: Path, image_size: int) -> tuple[Labelled, Labelled]:
    """Training and test samples of the binary version, which holds no code to be run.

    Raises:
        InputError: naming the file that is missing or damaged.
    """
    if image_size != 32:
        raise InputError("image_size", f"{image_size}", "32, the size of CIFAR-10's images")
    parts = [_cifar_file(folder / f"data_batch_{number}.bin") for number in range(1, 6)]
    images = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    return (images, labels), _cifar_file(folder / "test_batch.bin")


def caltech101(folder: Path, image_size: int) -> tuple[Labelled, None]:
    """All samples; the data set has none set apart. Its class of clutter is one like others.

    Raises:
        InputError: if there is no class, or an image cannot be read.
    """
    return _by_class({path.name: path for path in _folders(folder)}, folder, image_size), None


def tiny_imagenet(folder: Path, image_size: int) -> tuple[Labelled, Labelled]:
    """Training and validation samples; its test samples have no labels.

    Raises:
        InputError: if something is missing, or an image cannot be read.
    """
    classes = {path.name: path / "images" for path in _folders(folder / "train")}
    train = _by_class(classes, folder / "train", image_size)
    table = folder / "val" / "val_annotations.txt"
    try:
        lines = [line.split("\t") for line in table.read_text().splitlines()]
    except OSError as error:
        raise InputError(str(table), f"cannot be read ({error.strerror})", "the labels") from None
    names = sorted(classes)
    files, labels = [], []
    for number, line in enumerate(lines, 1):
        if len(line) < 2 or line[1] not in classes:
            raise InputError(f"{table}: line {number}", "is no label", "FILE, a tab, CLASS")
        files.append(folder / "val" / "images" / line[0])
        labels.append(names.index(line[1]))
    return train, _read(files, labels, image_size)


def _cifar_file(path: Path) -> Labelled:
    try:
        data = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        raise InputError(str(path), found, "a file of CIFAR-10's binary version") from None
    if not len(data) or len(data) % _CIFAR_RECORD:
        found = f"has {len(data):,} bytes"
        raise InputError(str(path), found, f"a multiple of {_CIFAR_RECORD:,}")
    records = data.reshape(-1, _CIFAR_RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= _CIFAR_CLASSES:
        raise InputError(str(path), f"has a label {labels.max()}", "labels from 0 to 9")
    return records[:, 1:].reshape(-1, 3, 32, 32), labels


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _by_class(classes: dict[str, Path], folder: Path, image_size: int) -> Labelled:
    files: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(sorted(classes)):
        found = sorted(p for p in classes[name].glob("*") if p.suffix.lower() in _SUFFIXES)
        files += found
        labels += [label] * len(found)
    if not files:
        raise InputError(str(folder), "has no images", "a folder of images for each class")
    return _read(files, labels, image_size)


def _read(files: Sequence[Path], labels: Sequence[int], image_size: int) -> Labelled:
    images = np.empty((len(files), 3, image_size, image_size), dtype=np.uint8)
    for index, path in enumerate(files):
        try:
            with Image.open(path) as image:
                scaled = image.convert("RGB").resize((image_size, image_size))
        except (OSError, UnidentifiedImageError):
            raise InputError(str(path), "is no image that can be read", "JPEG or PNG") from None
        images[index] = np.asarray(scaled).transpose(2, 0, 1)
    return images, np.array(labels, dtype=np.int64)
