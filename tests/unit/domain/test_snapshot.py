"""Snapshots come back as they were, or are refused in one clear line."""

import hashlib
import io
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError, read_snapshot, write_snapshot

names = st.text(max_size=5).filter(lambda name: name != "array")
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
)
trees = st.dictionaries(
    names,
    st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    ),
)


@given(tree=trees)
def test_plain_values_come_back(tree: dict[str, Any]) -> None:
    assert read_snapshot(write_snapshot(tree)) == tree


def test_arrays_come_back_to_the_last_bit_with_shape_and_type() -> None:
    arrays = [
        np.array([[0.1 + 0.2, -0.0, math.inf], [math.nan, 5e-324, 1e308]]),
        np.arange(6, dtype=np.int64).reshape(3, 2).T,
        np.zeros((0, 4, 2)),
        np.array(1.5),
        np.array([True, False]),
    ]
    back = read_snapshot(write_snapshot({"these": [{"one": array} for array in arrays]}))
    for mine, theirs in zip(arrays, back["these"], strict=True):
        assert theirs["one"].dtype == mine.dtype
        assert theirs["one"].shape == mine.shape
        assert theirs["one"].tobytes() == mine.tobytes()


def test_the_same_content_gives_the_same_bytes() -> None:
    content = {"a": np.arange(5.0), "b": [1, "x"]}
    assert write_snapshot(content) == write_snapshot(content)


def test_what_is_no_data_is_not_written() -> None:
    with pytest.raises(TypeError):
        write_snapshot({"a": object()})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        write_snapshot({"a": np.array([object()])})


def test_any_changed_or_missing_byte_is_noticed() -> None:
    data = write_snapshot({"a": np.arange(50.0), "b": "text"})
    for place in range(0, len(data), 7):
        for damaged in (
            data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :],
            data[:place],
            data + data[: place + 1],
        ):
            with pytest.raises(InputError, match="snapshot"):
                read_snapshot(damaged)


def test_errors_say_what_is_wrong() -> None:
    data = bytearray(write_snapshot({"a": 1}))
    data[-1] ^= 255
    with pytest.raises(InputError, match="is damaged: wrong checksum"):
        read_snapshot(bytes(data))
    data[18] = 9
    with pytest.raises(InputError, match="is of version 9; expected version 1"):
        read_snapshot(bytes(data))
    with pytest.raises(InputError, match="5 bytes of another format"):
        read_snapshot(b"hello")


def test_nothing_is_unpickled() -> None:
    body = io.BytesIO()
    np.savez(body, tree=np.array([{"a": 1}], dtype=object))
    for content in (body.getvalue(), pickle.dumps({"a": 1}), b""):
        head = write_snapshot({})[:19]
        forged = head + hashlib.sha256(content).digest() + content
        with pytest.raises(InputError, match="cannot be read"):
            read_snapshot(forged)
