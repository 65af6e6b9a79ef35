"""Images with classes: CIFAR-10 (its Python or its binary version) and MNIST, from a folder.

CIFAR-10 (Krizhevsky, 2009): data_batch_1 to data_batch_5, pickles of {data: uint8 [10000, 3072],
labels: 10000 numbers}; or the same with .bin, records of a class and 3,072 bytes. MNIST (LeCun et
al., 1998): train-images-idx3-ubyte and train-labels-idx1-ubyte, gzipped or not.
"""

import gzip
import io
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from auctune.domain.errors import InputError

CIFAR_PIXELS = 3 * 32 * 32
EXPECTED = "CIFAR-10's data_batch_1 to 5 (or .bin), or MNIST's train-images-idx3-ubyte[.gz]"
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))

Bytes = NDArray[np.uint8]


def read_images(folder: Path) -> tuple[Tensor, Tensor]:
    """Images uint8 (rows, channels, side, side) and their classes int64 (rows,), for training.

    Raises:
        InputError: naming the folder or the file that is not as it should be.
    """
    if (folder / BATCHES[0]).is_file():
        parts = [_read_pickle(folder / name) for name in BATCHES]
    elif (folder / f"{BATCHES[0]}.bin").is_file():
        parts = [_read_records(folder / f"{name}.bin") for name in BATCHES]
    else:
        return _read_mnist(folder)
    images = np.concatenate([images for images, _ in parts]).reshape(-1, 3, 32, 32)
    classes = np.concatenate([classes for _, classes in parts])
    return torch.from_numpy(images), torch.from_numpy(classes)


class _Arrays(pickle.Unpickler):
    """Reads arrays and nothing else: a pickle may otherwise run anything."""

    def find_class(self, module: str, name: str) -> Any:
        known = {"_reconstruct", "ndarray", "dtype", "encode"}
        if module.split(".")[0] not in ("numpy", "_codecs") or name not in known:
            raise pickle.UnpicklingError(f"holds {module}.{name}")
        return super().find_class(module, name)


def _read_pickle(path: Path) -> tuple[Bytes, NDArray[np.int64]]:
    expected = "a batch of CIFAR-10, Python version"
    try:
        content = _Arrays(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        images = np.asarray(content[b"data"], dtype=np.uint8)
        classes = np.asarray(content[b"labels"], dtype=np.int64)
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})", expected) from None
    except (pickle.UnpicklingError, EOFError, LookupError, TypeError, ValueError) as error:
        raise InputError(str(path), f"cannot be read ({error})", expected) from None
    if images.ndim != 2 or images.shape != (len(classes), CIFAR_PIXELS):
        raise InputError(str(path), f"has images of shape {images.shape}", expected)
    return images, _checked(path, classes)


def _read_records(path: Path) -> tuple[Bytes, NDArray[np.int64]]:
    data = _read(path)
    if not data or len(data) % (CIFAR_PIXELS + 1):
        found = f"has {len(data)} bytes"
        raise InputError(str(path), found, f"records of {CIFAR_PIXELS + 1} bytes each")
    records = np.frombuffer(data, dtype=np.uint8).reshape(-1, CIFAR_PIXELS + 1)
    return records[:, 1:], _checked(path, records[:, 0].astype(np.int64))


def _read_mnist(folder: Path) -> tuple[Tensor, Tensor]:
    images = _read_idx(_find(folder, "train-images-idx3-ubyte"), 3)
    path = _find(folder, "train-labels-idx1-ubyte")
    classes = _checked(path, _read_idx(path, 1).astype(np.int64))
    if len(images) != len(classes):
        raise InputError(str(path), f"has {len(classes)} labels", f"{len(images)}, as images")
    return torch.from_numpy(images.copy()).unsqueeze(1), torch.from_numpy(classes)


def _read_idx(path: Path, dimensions: int) -> Bytes:
    """An array in the IDX format: 0, 0, 8 for bytes, dimensions; sizes as big-endian 32 bits."""
    data = _read(path)
    head = 4 + 4 * dimensions
    if len(data) < head or data[:4] != bytes((0, 0, 8, dimensions)):
        raise InputError(str(path), "does not begin as one", f"an IDX file of {dimensions}-d bytes")
    shape = tuple(int(size) for size in np.frombuffer(data[4:head], dtype=">u4"))
    if len(data) - head != np.prod(shape):
        found = f"has {len(data) - head} bytes of data"
        raise InputError(str(path), found, f"{np.prod(shape)} for the shape {shape}")
    return np.frombuffer(data[head:], dtype=np.uint8).reshape(shape)


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise InputError(str(folder), f"has no {name}", EXPECTED)


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except OSError as error:
        found = f"cannot be read ({error.strerror or error})"
        raise InputError(str(path), found, EXPECTED) from None
    except (EOFError, zlib.error):
        raise InputError(str(path), "is damaged gzip", EXPECTED) from None


def _checked(path: Path, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(classes) or classes.min() < 0 or classes.max() > 9:
        raise InputError(str(path), "has classes beyond 0 to 9, or none", "ten classes")
    return classes
