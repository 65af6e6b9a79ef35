import json
from dataclasses import asdict
from math import inf, isnan, nan
from pathlib import Path

from auctune.run.child.messages import encode
from auctune.run.executor import TaskOrder, TaskResult
from auctune.run.executor.messages import order_record, read_order, read_result
from auctune.train.job import LoraJob


def test_an_order_comes_back_as_it_was_sent() -> None:
    job = LoraJob(
        "a", Path("x/é.jsonl"), target_modules=("c_attn", "c_fc"), validation=Path("v"), patience=2
    )
    for order in (
        TaskOrder(job, Path("work"), 3, 40, Path("tasks/a/adapter"), known_steps=7),
        TaskOrder(LoraJob("b", Path("y")), Path("work"), 1, 0, Path("adapter")),
    ):
        assert read_order(json.loads(encode(order_record(order)))) == order


def test_a_result_comes_back_with_losses_that_are_not_finite() -> None:
    result = TaskResult(
        rows=8,
        total_rows=16,
        tokens=99,
        steps=2,
        state="failed",
        losses=((1, 4, 50, 2.5), (2, 8, 99, inf)),
        validation=((1, 8, nan),),
        note="astray",
        exported=False,
    )

    back = read_result(json.loads(encode(asdict(result))))

    assert back.losses == result.losses
    assert isnan(back.validation[0][2])
    assert (back.state, back.note, back.exported) == ("failed", "astray", False)


def test_a_message_is_one_line_whatever_is_in_it() -> None:
    line = encode({"kind": "noted", "text": "one\ntwo\u2028three"})

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line)["text"] == "one\ntwo\u2028three"
