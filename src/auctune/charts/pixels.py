"""A grid of colours as a PNG of its own (indexed colour), for grids too fine to draw as shapes.

Format: W3C, Portable Network Graphics (third edition), sections 5 and 11.
"""

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
BIT_DEPTH, INDEXED = 8, 3


def encode_png(levels: NDArray[np.uint8], colours: Sequence[str], *, zoom: int) -> bytes:
    """An image whose pixel [row, column] has colour `colours[levels[row, column]]`.

    Args:
        levels: [row, column], the first row at the top.
        colours: #rrggbb, at most 256.
        zoom: pixels along each side of a cell, so that no viewer has to blur it.
    """
    image = np.repeat(np.repeat(levels, zoom, axis=0), zoom, axis=1)
    height, width = image.shape
    header = struct.pack(">IIBBBBB", width, height, BIT_DEPTH, INDEXED, 0, 0, 0)
    table = b"".join(bytes.fromhex(colour.removeprefix("#")) for colour in colours)
    # Each line begins with its filter: 0, none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), image], axis=1)
    chunks = ((b"IHDR", header), (b"PLTE", table), (b"IDAT", zlib.compress(lines.tobytes(), 9)))
    return SIGNATURE + b"".join(_chunk(*chunk) for chunk in (*chunks, (b"IEND", b"")))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def to_data_uri(png: bytes) -> str:
    """The image as an address that needs no file."""
    return "data:image/png;base64," + b64encode(png).decode()
