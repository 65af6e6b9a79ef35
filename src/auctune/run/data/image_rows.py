"""Labelled images as an owner uploads them: an .npz of two arrays, read without trusting it.

| member | holds |
| --- | --- |
| images.npy | bytes (uint8), [N, H, W] of one channel, or [N, C, H, W] |
| labels.npy | whole numbers, [N], from 0 on |

as `numpy.savez_compressed(file, images=..., labels=...)` writes it. Nothing is unpickled. What a
member claims to be (its size in the archive, its shape) is believed only once so many bytes, and no
more, have come out of it.
"""

import io
import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from auctune.domain import InputError

MOST_BYTES = 512 * 1024 * 1024
"""Of a member that is unpacked."""
MOST_CLASSES = 10_000
_LEAST_SIDE, _MOST_SIDE, _MOST_CHANNELS = 8, 512, 16
_MAGIC = b"PK\x03\x04"
# Before a member's name: its last four bytes are the lengths of that and of what follows it.
_HEAD_BYTES = 30
_MEMBERS = ("images.npy", "labels.npy")
_EXPECTED = "an .npz with arrays `images` (uint8) and `labels`"
# As numpy packs; of others a damaged member ends in errors, and memory, of its packer's own.
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_NO_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, UnicodeDecodeError)
# A header is a literal of Python, whose reader is as it is for those who wrote it themselves.
_NO_ARRAY = (
    *(ValueError, TypeError, LookupError, SyntaxError),
    *(MemoryError, RecursionError, TokenError),
)


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What such a file holds.

    Attributes:
        samples: how many.
        image: channels, height, width of each.
        classes: labels are below it.
    """

    samples: int
    image: tuple[int, int, int]
    classes: int

    @classmethod
    def from_record(cls, record: dict[str, object]) -> "ImageFacts":
        """What a data process says."""
        samples, image, classes = record["samples"], record["image"], record["classes"]
        assert isinstance(samples, int)
        assert isinstance(image, list | tuple)
        assert isinstance(classes, int)
        channels, height, width = image
        return cls(samples, (channels, height, width), classes)


def holds_arrays(path: Path) -> bool:
    """Whether a file may be such a one, by its first bytes; others hold rows of text."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def is_npz(path: Path) -> bool:
    """Whether a file is an archive of arrays, by the name of its first member."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        name = file.read(int.from_bytes(head[-4:-2], "little"))
    return head.startswith(_MAGIC) and name.endswith(b".npy")


def image_facts(path: Path, place: str) -> ImageFacts:
    """What a file holds.

    Raises:
        InputError: as `read_images`.
    """
    images, labels = read_images(path, place)
    _, channels, height, width = images.shape
    return ImageFacts(len(labels), (channels, height, width), int(labels.max()) + 1)


def read_images(path: Path, place: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images [N, C, H, W] and labels [N].

    Args:
        path: the file.
        place: how errors call it.

    Raises:
        InputError: if it is no such file, or holds what nobody can train on.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sorted(archive.namelist()) != list(_MEMBERS):
                found = f"holds {', '.join(archive.namelist()[:5]) or 'nothing'}"[:200]
                raise InputError(place, found, _EXPECTED)
            if any(member.compress_type not in _PACKED for member in archive.infolist()):
                raise InputError(place, "is packed otherwise", "members stored or deflated")
            images, labels = (_member(archive, name, place) for name in _MEMBERS)
    except _NO_ARCHIVE as error:
        # Whose file it is is not to know where it lies.
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(place, f"cannot be read ({why})"[:200], _EXPECTED) from None
    return _images(images, f"{place}: images"), _labels(labels, len(images), f"{place}: labels")


def _member(archive: zipfile.ZipFile, name: str, place: str) -> NDArray[np.generic]:
    with archive.open(name) as file:
        content = file.read(MOST_BYTES + 1)
    here = f"{place}: {name.removesuffix('.npy')}"
    if len(content) > MOST_BYTES:
        raise InputError(here, "is too large", f"{MOST_BYTES:,} bytes at most")
    try:
        return _array(content, here)
    except InputError:
        raise
    except _NO_ARRAY as error:
        raise InputError(here, f"is no array ({error})"[:200], _EXPECTED) from None


def _array(content: bytes, place: str) -> NDArray[np.generic]:
    """The array of a member; what is raised beside `InputError` says that it is none."""
    stream = io.BytesIO(content)
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = read(stream)
    if dtype.hasobject or dtype.kind not in "iu" or by_columns:
        raise InputError(place, f"are of type {dtype}"[:200], "whole numbers, row by row")
    left = len(content) - stream.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != left:
        raise InputError(place, f"say {shape} in {left:,} bytes"[:200], "an array that is whole")
    return np.frombuffer(content, dtype=dtype, offset=stream.tell()).reshape(shape)


def _images(found: NDArray[np.generic], place: str) -> NDArray[np.uint8]:
    if found.dtype != np.uint8 or found.ndim not in (3, 4) or not len(found):
        raise InputError(place, f"are {found.dtype} {found.shape}", "bytes, [N, C, H, W]")
    images: NDArray[np.uint8] = (found[:, None] if found.ndim == 3 else found).astype(np.uint8)
    _, channels, height, width = images.shape
    sides = min(height, width) >= _LEAST_SIDE and max(height, width) <= _MOST_SIDE
    if not (1 <= channels <= _MOST_CHANNELS and sides):
        expected = f"1 to {_MOST_CHANNELS} channels, sides of {_LEAST_SIDE} to {_MOST_SIDE} pixels"
        raise InputError(place, f"are {channels} x {height} x {width}", expected)
    return images


def _labels(found: NDArray[np.generic], samples: int, place: str) -> NDArray[np.int64]:
    if found.shape != (samples,):
        raise InputError(place, f"are {found.shape}", f"one for each of {samples} images")
    numbers: NDArray[np.int64] = found.astype(np.int64)
    least, most = int(found.min()), int(found.max())
    if least < 0 or most >= MOST_CLASSES:
        expected = f"numbers from 0 to {MOST_CLASSES - 1}"
        raise InputError(place, f"go from {least} to {most}", expected)
    return numbers
