import json
from dataclasses import asdict
from math import inf, isnan, nan
from pathlib import Path

from auctune.engine.runtime.channel import encode
from auctune.engine.runtime.messages import TaskQuota, TaskResult, TrainSlotRequest, read_result
from auctune.train.job import LoraJob


def test_a_request_comes_back_as_it_was_sent() -> None:
    job = LoraJob(
        "a", Path("x/é.jsonl"), target_modules=("c_attn", "c_fc"), validation=Path("v"), patience=2
    )
    quotas = (
        TaskQuota(job, Path("work"), 3, 40, Path("tasks/a/adapter"), known_steps=7),
        TaskQuota(LoraJob("b", Path("y")), Path("work"), 1, 0, Path("adapter")),
    )
    for request in (TrainSlotRequest(3, quotas), TrainSlotRequest(4, quotas[1:], 1.7e9, "4/a/2")):
        assert TrainSlotRequest.from_message(json.loads(encode(request.to_message()))) == request


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

    back = read_result(json.loads(encode(asdict(result))))

    assert back.losses == result.losses
    assert isnan(back.validation[0][2])
    assert (back.state, back.note, back.exported) == ("failed", "astray", False)
