"""Frames of messages between a worker and its parent."""

from dataclasses import dataclass, replace
from math import inf, isnan, nan
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from pydantic_core import PydanticSerializationError

from auctune.engine.messages.base import Alive, Arrays, Stop, WorkerMessages
from auctune.engine.messages.node import (
    NODE_MESSAGES,
    TaskQuota,
    TaskResult,
    Trained,
    TrainSlotRequest,
)
from auctune.engine.runtime.channel import MessageError, check, decode, encode
from auctune.train.job import LoraJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    loss: float
    text: str
    arrays: Arrays = ()
    type: Literal["gradient"] = "gradient"


MESSAGES = WorkerMessages(Stop, Alive | Gradient)


def returned(message: Any, messages: Any) -> Any:
    return decode(encode(message, messages), messages)


def test_a_message_comes_back_with_its_numbers_and_arrays_whatever_they_are() -> None:
    message = Gradient(loss=inf, text="two\nlines")
    assert returned(message, MESSAGES.replies) == message
    # Its bytes hold those of line breaks.
    values = np.random.default_rng(0).normal(size=30_000).astype(np.float32)
    assert b"\n" in values.tobytes()
    text = np.frombuffer(b"odd", np.uint8)
    found = returned(replace(message, arrays=[text, values, values[:0]]), MESSAGES.replies)
    assert replace(found, arrays=()) == message
    for array, sent in zip(found.arrays, (text, values, values[:0]), strict=True):
        np.testing.assert_array_equal(array, sent, strict=True)
    found.arrays[1][0] = 1.0


def test_what_is_not_of_the_union_is_neither_sent_nor_received() -> None:
    for message in (Stop(), {"kind": "gradient"}, Gradient(loss="high", text="")):  # type: ignore[arg-type]
        with pytest.raises(PydanticSerializationError):
            encode(message, MESSAGES.replies)
    for frame in (b'{"type": "stop"}', b'{"type": "gradient"}'):
        with pytest.raises(MessageError):
            decode(frame, MESSAGES.replies)


def test_an_error_names_the_class_and_the_field_on_one_line() -> None:
    with pytest.raises(MessageError, match=r"^gradient\.text: Field required$"):
        decode(b'{"type": "gradient", "loss": 1, "arrays": []}\n', MESSAGES.replies)
    with pytest.raises(MessageError, match=r"^Input tag 'gradients' found using 'type' does not"):
        decode(b'{"type": "gradients"}', MESSAGES.replies)
    with pytest.raises(MessageError, match=r"^Input should be a valid dictionary or object[^\n]*$"):
        check(None, MESSAGES.replies)


def test_a_message_that_is_not_encoded_is_an_object_of_its_union() -> None:
    message = Gradient(loss=inf, text="", arrays=["a reference"])
    assert check(message, MESSAGES.replies) is message
    for other in (Stop(), {"type": "alive"}, Gradient):
        with pytest.raises(MessageError):
            check(other, MESSAGES.replies)


def test_a_request_to_train_comes_back_as_it_was_sent() -> None:
    job = LoraJob(
        "a", Path("x/é.jsonl"), target_modules=("c_attn", "c_fc"), validation=Path("v"), patience=2
    )
    quotas = (
        TaskQuota(job, Path("work"), 3, 40, Path("tasks/a/adapter"), known_steps=7),
        TaskQuota(LoraJob("b", Path("y")), Path("work"), 1, 0, Path("adapter")),
    )
    for request in (TrainSlotRequest(3, quotas), TrainSlotRequest(4, quotas[1:], 1.7e9, "4/a/2")):
        assert returned(request, NODE_MESSAGES.requests) == request


def test_a_result_comes_back_with_losses_that_are_not_finite() -> None:
    result = TaskResult(
        rows=8,
        total_rows=16,
        tokens=99,
        steps=2,
        state="failed",
        losses=((1, 4, 50, 2.5, 0.25), (2, 8, 99, inf, 0.0)),
        validation=((1, 8, nan, 0.5),),
        note="astray",
        exported=False,
    )
    trained = Trained(
        request="0/a/1", slot=0, seconds=1.0, saved_at=9.0, results={"a": result}, refused={}
    )
    back = returned(trained, NODE_MESSAGES.replies).results["a"]
    assert back.losses == result.losses
    assert isnan(back.validation[0][2])
    assert replace(back, validation=()) == replace(result, validation=())
