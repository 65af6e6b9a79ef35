"""What a mechanism learned, as plain JSON values, and back, to the last bit.

An array is its bytes, compressed, in base 64: numbers as text would take three times the room, and
nobody reads them.
"""

import base64
import zlib
from typing import Any

import numpy as np

from auctune.domain import PricesLearned


def prices_record(event: PricesLearned) -> dict[str, Any]:
    """The body of the event."""
    return {
        "slot": event.now,
        "lesson": {name: _write(array) for name, array in event.lesson.items()},
    }


def read_prices(body: dict[str, Any]) -> PricesLearned:
    """The event that `prices_record` wrote."""
    return PricesLearned(
        body["slot"], {name: _read(record) for name, record in body["lesson"].items()}
    )


def _write(array: Any) -> dict[str, Any]:
    packed = zlib.compress(np.ascontiguousarray(array).tobytes(), level=1)
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "data": base64.b64encode(packed).decode(),
    }


def _read(record: dict[str, Any]) -> Any:
    data = zlib.decompress(base64.b64decode(record["data"]))
    # A copy, as what is read from bytes cannot be written to.
    return np.frombuffer(data, dtype=record["dtype"]).reshape(record["shape"]).copy()
