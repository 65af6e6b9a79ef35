"""Readers of the paper's data sets in the formats in which they are published.

| data set | files |
| --- | --- |
| CIFAR-10 (Krizhevsky, 2009) | data_batch_1 to 5, pickles, or the same with .bin |
| MNIST (LeCun et al., 1998) | train-images-idx3-ubyte, train-labels-idx1-ubyte, gzipped or not |
| IMDB (Maas et al., 2011) | train/pos/*.txt and train/neg/*.txt, a review each |
| Yesno (openslr.org, SLR1) | 0_0_1_0_1_0_1_1.wav and the like; 1 for yes |
| frames of a game | frames.npy, uint8 (rows, side, side), and an expert's actions.npy, 0 to 17 |
"""

import gzip
import io
import pickle
import re
import wave
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from auctune.domain.errors import InputError

CIFAR_PIXELS = 3 * 32 * 32
_EXPECTED_IMAGES = "CIFAR-10's data_batch_1 to 5 (or .bin), or MNIST's train-images-idx3-ubyte[.gz]"
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))

Bytes = NDArray[np.uint8]


def read_images(folder: Path) -> tuple[Tensor, Tensor]:
    """Return images uint8 (rows, channels, side, side) and their classes int64 (rows,).

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
    """Unpickler of arrays alone: a pickle may otherwise run any code."""

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
    """Return an array in the IDX format: 0, 0, 8, dimensions; sizes as big-endian 32 bits."""
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
    raise InputError(str(folder), f"has no {name}", _EXPECTED_IMAGES)


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except OSError as error:
        found = f"cannot be read ({error.strerror or error})"
        raise InputError(str(path), found, _EXPECTED_IMAGES) from None
    except (EOFError, zlib.error):
        raise InputError(str(path), "is damaged gzip", _EXPECTED_IMAGES) from None


def _checked(path: Path, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(classes) or classes.min() < 0 or classes.max() > 9:
        raise InputError(str(path), "has classes beyond 0 to 9, or none", "ten classes")
    return classes


LENGTH = 200
VOCABULARY = 20_000
NOTHING, OTHER = 0, 1
_WORD = re.compile(r"[a-z']+")
_EXPECTED_REVIEWS = "IMDB's train/pos/*.txt and train/neg/*.txt"


def read_reviews(folder: Path) -> tuple[Tensor, Tensor]:
    """Return reviews (rows, LENGTH), numbers of words, and whether they are good (rows,), int64.

    The most frequent words have numbers of their own, all others one in common.


    Args:
        folder: aclImdb.

    Raises:
        InputError: naming the folder or the file.
    """
    texts: list[list[str]] = []
    labels: list[int] = []
    for label, name in enumerate(("neg", "pos")):
        paths = sorted((folder / "train" / name).glob("*.txt"))
        if not paths:
            raise InputError(str(folder), f"has no train/{name}/*.txt", _EXPECTED_REVIEWS)
        texts += [_words(path) for path in paths]
        labels += [label] * len(paths)
    counts = Counter(word for text in texts for word in text)
    common = sorted(counts, key=lambda word: (-counts[word], word))[: VOCABULARY - 2]
    numbers = {word: number for number, word in enumerate(common, start=2)}
    rows = torch.full((len(texts), LENGTH), NOTHING, dtype=torch.int64)
    for row, text in enumerate(texts):
        found = [numbers.get(word, OTHER) for word in text[:LENGTH]]
        rows[row, : len(found)] = torch.tensor(found, dtype=torch.int64)
    return rows, torch.tensor(labels)


def _words(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        raise InputError(str(path), found, "a review") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text", "a review") from None
    return _WORD.findall(text.replace("<br />", " ").lower())


RATE = 8000
FRAME_SAMPLES = 512
FRAMES = 96
BANDS = 32
_NAME = re.compile(r"([01])" + r"_([01])" * 7)
_EXPECTED_SOUNDS = "Yesno's 0_0_0_0_1_1_1_1.wav and the like"


def read_yesno(folder: Path) -> tuple[Tensor, Tensor]:
    """Return sounds (rows, FRAMES, BANDS) and whether each word is a yes (rows, 8), float32.

    Raises:
        InputError: naming the folder or the file.
    """
    named = [(path, _NAME.fullmatch(path.stem)) for path in sorted(folder.glob("*.wav"))]
    paths = [(path, match) for path, match in named if match is not None]
    if not paths:
        raise InputError(str(folder), "has no recordings", _EXPECTED_SOUNDS)
    sounds = np.stack([_features(_samples(path)) for path, _ in paths])
    words = [[float(word) for word in match.groups()] for _, match in paths]
    return torch.from_numpy(sounds), torch.tensor(words)


def _samples(path: Path) -> NDArray[np.float64]:
    expected = f"a WAV file of {RATE} Hz, one channel, 16 bits"
    try:
        with wave.open(str(path), "rb") as file:
            shape = file.getframerate(), file.getnchannels(), file.getsampwidth()
            data = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise InputError(str(path), f"cannot be read ({error})", expected) from None
    if shape != (RATE, 1, 2):
        found = f"has {shape[0]} Hz, {shape[1]} channels, {8 * shape[2]} bits"
        raise InputError(str(path), found, expected)
    return np.frombuffer(data, dtype="<i2") / 32768.0


def _features(samples: NDArray[np.float64]) -> NDArray[np.float32]:
    whole = np.zeros(FRAMES * FRAME_SAMPLES)
    whole[: len(samples)] = samples[: len(whole)]
    frames = whole.reshape(FRAMES, FRAME_SAMPLES) * np.hanning(FRAME_SAMPLES)
    strength = np.abs(np.fft.rfft(frames))[:, : FRAME_SAMPLES // 2]
    bands = strength.reshape(FRAMES, BANDS, -1).mean(2)
    features: NDArray[np.float32] = np.log(bands + 1e-3).astype(np.float32)
    return features


ACTIONS = 18


def read_frames(folder: Path) -> tuple[Tensor, Tensor]:
    """Return frames uint8 (rows, 1, side, side) and actions int64 (rows,).

    Raises:
        InputError: naming the file.
    """
    frames = _load(folder / "frames.npy")
    actions = _load(folder / "actions.npy")
    if frames.dtype != np.uint8 or frames.ndim != 3 or frames.shape[1] != frames.shape[2]:
        found = f"has {frames.dtype} of shape {frames.shape}"
        raise InputError(str(folder / "frames.npy"), found, "uint8 of shape (rows, side, side)")
    whole = np.issubdtype(actions.dtype, np.integer) and actions.shape == (len(frames),)
    if not whole or not len(actions) or actions.min() < 0 or actions.max() >= ACTIONS:
        found = f"has {actions.dtype} of shape {actions.shape}"
        expected = f"{len(frames)} whole numbers of 0 to {ACTIONS - 1}"
        raise InputError(str(folder / "actions.npy"), found, expected)
    return torch.from_numpy(frames).unsqueeze(1), torch.from_numpy(actions.astype(np.int64))


def _load(path: Path) -> np.ndarray:
    try:
        loaded: np.ndarray = np.load(path, allow_pickle=False)
    except OSError as error:
        found = f"cannot be read ({error.strerror or error})"
        raise InputError(str(path), found, "an array of numpy") from None
    except ValueError as error:
        raise InputError(str(path), f"cannot be read ({error})", "an array of numpy") from None
    return loaded
