"""The worker that reduces gradients, and what it answers."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from auctune.engine.elastic import reducer
from auctune.engine.elastic.errors import SlotError, read_failure
from auctune.engine.elastic.reducer import ReducerWorker, reducer_worker
from auctune.engine.messages.elastic import (
    Added,
    CountValidated,
    Reduce,
    Reduced,
    ReducerSaved,
    SaveReducer,
    StartReducer,
)
from auctune.engine.runtime.requests import RequestWorker
from auctune.train.data_parallel.batches import NO_GRADIENT, Contribution
from auctune.train.job import LoraJob
from auctune.train.row_cursor import DataCounts
from support.elastic import ThreadWorker
from support.waits import WAIT_SECONDS

JOB = LoraJob("job", Path("rows"), epochs=2, batch_size=4, validation=Path("rows"))
WEIGHTS = np.array([1.0, -1.0], np.float32)
START = StartReducer(
    base_digest="digest",
    num_parameters=2,
    counts=DataCounts(4, "rows", num_validation_rows=2, num_validation_targets=4),
    shapes={"a": (2,)},
    arrays=[WEIGHTS],
)
SITES = StartReducer(base_digest="digest", num_parameters=2, total_rows=8, arrays=[WEIGHTS])
GRADIENT = Contribution(np.ones(2, np.float32), 1.0, 1, 4, 6)
VALIDATED = Contribution(NO_GRADIENT, 2.0, 1, 4)


def test_weights_and_progress_come_after_a_step_and_at_an_epoch_s_end_alone() -> None:
    worker = ReducerWorker(JOB, 1)
    begun = worker.handle(START)
    assert isinstance(begun, Reduced)
    np.testing.assert_array_equal(begun.arrays[0], WEIGHTS)
    assert (begun.progress.rows, begun.points) == (0, [])
    halves = [Reduce(num_rows=[2], is_last=is_last) for is_last in (False, True)]
    assert worker.handle(halves[0].with_contributions([GRADIENT])) == Added()
    stepped = worker.handle(halves[1].with_contributions([GRADIENT]))
    assert isinstance(stepped, Reduced)
    assert (stepped.progress.steps, stepped.progress.rows) == (1, 4)
    assert len(stepped.points) == 1
    assert not np.array_equal(stepped.arrays[0], WEIGHTS)
    rows = [CountValidated(num_rows=[1], is_last=is_last) for is_last in (False, True)]
    assert worker.handle(rows[0].with_contributions([VALIDATED])) == Added()
    ended = worker.handle(rows[1].with_contributions([VALIDATED]))
    assert isinstance(ended, Reduced)
    assert ended.progress.validation == ((1, 1.0, 0.5),)
    assert (ended.progress.rows, ended.points) == (6, ())
    saved = worker.handle(SaveReducer())
    assert isinstance(saved, ReducerSaved)
    np.testing.assert_array_equal(saved.checkpoint().tensors["adapter"], ended.arrays[0])


def test_a_request_that_fails_is_answered_and_the_next_one_is_served() -> None:
    spec = reducer_worker(JOB)
    work = partial(reducer.main, argument=spec.argument)
    worker = RequestWorker(partial(ThreadWorker, work, spec.messages), read_failure)
    validated = CountValidated(num_rows=[1], is_last=True).with_contributions([VALIDATED])
    with pytest.raises(SlotError, match=r"ended with an error \(AssertionError\)"):
        worker.request(validated).result(WAIT_SECONDS)
    assert worker.request(SITES).result(WAIT_SECONDS).progress.state == "training"
    # Rows at sites have no validation data of an epoch.
    with pytest.raises(SlotError, match=r"ended with an error \(AssertionError\)"):
        worker.request(validated).result(WAIT_SECONDS)
    assert worker.request(SaveReducer()).result(WAIT_SECONDS).state["steps"] == 0
    assert not worker.has_ended
    worker.kill()
