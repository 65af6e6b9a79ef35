"""The worker that computes gradients, and what it answers."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from auctune.datasets import read_dataset
from auctune.domain import InputError
from auctune.engine.elastic.errors import SlotError, read_failure
from auctune.engine.elastic.gradient_worker import dump_rows
from auctune.engine.messages.elastic import (
    GRADIENT_MESSAGES,
    Compute,
    InitializeAdapter,
    LoadChunks,
    Validate,
)
from auctune.engine.runtime.requests import RequestWorker
from auctune.train.data_parallel.batches import ChunkRows
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob
from support.elastic import ThreadWorker, gradient_work
from support.small_bases import build_base, write_rows
from support.waits import WAIT_SECONDS

JOB = LoraJob(id="job", data=Path(), rank=2, max_length=24, seed=5)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[RequestWorker]:
    base = build_base(tmp_path / "base", "llama")
    work = gradient_work(GradientWorker(base, JOB), JOB, tmp_path)
    found = RequestWorker(partial(ThreadWorker, work, GRADIENT_MESSAGES), read_failure)
    rows = dump_rows(read_dataset(write_rows(tmp_path / "rows.jsonl", 4, seed=1)))
    load = LoadChunks(chunks=[7], has_validation=True, arrays=[rows, rows])
    loaded = found.request(load).result(WAIT_SECONDS)
    assert (loaded.sizes, loaded.num_validation_rows) == ({7: 4}, 4)
    yield found
    found.kill()


def test_a_request_without_weights_uses_those_of_the_previous_one(worker: RequestWorker) -> None:
    started = worker.request(InitializeAdapter()).result(WAIT_SECONDS)
    other = started.arrays[0] + np.float32(0.01)
    part = ChunkRows(7, 0, 0, 2)
    requests = [
        Compute(parts=[part], arrays=started.arrays),
        Compute(parts=[part, part], arrays=[other]),
        Compute(parts=[part]),
        Validate(first=0, count=4),
    ]
    answers = [worker.request(one).result(WAIT_SECONDS).split() for one in requests]
    (first,), (second, same), (third,), (validated,) = answers
    assert first.loss != second.loss == same.loss == third.loss
    np.testing.assert_array_equal(third.gradient, second.gradient, strict=True)
    assert third.gradient.shape == other.shape
    # Rows that are only evaluated have no gradient.
    assert validated.gradient.shape == (0,)
    assert validated.num_targets > 0


def test_a_request_that_fails_is_answered_and_the_next_one_is_served(worker: RequestWorker) -> None:
    archive = np.frombuffer(b"no archive", np.uint8)
    with pytest.raises(InputError, match="start_from"):
        worker.request(InitializeAdapter(arrays=[archive])).result(WAIT_SECONDS)
    # A chunk that it does not have.
    with pytest.raises(SlotError, match=r"ended with an error \(KeyError\)"):
        worker.request(Compute(parts=[ChunkRows(8, 0, 0, 2)])).result(WAIT_SECONDS)
    assert len(worker.request(InitializeAdapter()).result(WAIT_SECONDS).arrays) == 1
