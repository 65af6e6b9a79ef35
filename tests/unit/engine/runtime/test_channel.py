"""Frames of messages between a worker and its parent."""

import numpy as np

from auctune.engine.runtime.channel import decode, encode


def test_a_message_comes_back_with_its_numbers_whatever_they_are() -> None:
    message = {"kind": "gradient", "loss": 0.1, "text": "two\nlines"}
    assert decode(encode(message)) == message
    # Its bytes hold those of line breaks.
    values = np.random.default_rng(0).normal(size=30_000).astype(np.float32)
    assert b"\n" in values.tobytes()
    text = np.frombuffer(b"odd", np.uint8)
    found = decode(encode({**message, "arrays": [text, values, values[:0]]}))
    arrays = found.pop("arrays")
    assert found == message
    for array, sent in zip(arrays, (text, values, values[:0]), strict=True):
        np.testing.assert_array_equal(array, sent, strict=True)
    arrays[1][0] = 1.0
