"""A slot of a job, whose workers are threads that exchange frames."""

from functools import partial
from pathlib import Path

import numpy as np

from auctune.datasets import read_dataset
from auctune.domain.dataset import DataSet
from auctune.engine.edge.inputs import EdgeTraining
from auctune.engine.edge.slot_run import PlacedWorker, SlotRun, SlotTask
from auctune.engine.edge.storage import StoredChunk
from auctune.engine.elastic import reducer
from auctune.engine.elastic.errors import read_failure
from auctune.engine.elastic.gradient_worker import dump_rows
from auctune.engine.elastic.reducer import reducer_worker
from auctune.engine.messages.elastic import GRADIENT_MESSAGES
from auctune.engine.runtime.requests import RequestWorker
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob
from support.chunk_training import train_alone
from support.elastic import ThreadWorker, gradient_work
from support.small_bases import build_base, write_rows
from support.waits import WAIT_SECONDS

MICRO = 2


def test_a_worker_may_have_no_chunk_of_a_slot(tmp_path: Path) -> None:
    """A site has more workers than chunks where epochs outnumber a worker's chunks of a slot."""
    base = build_base(tmp_path / "base", "llama")
    rows = read_dataset(write_rows(tmp_path / "rows.jsonl", 7, seed=1))
    chunks = [DataSet(rows.kind, rows.rows[:4]), DataSet(rows.kind, rows.rows[4:])]
    job = LoraJob(id="job", data=Path(), epochs=3, rank=2, batch_size=4, max_length=24, seed=5)
    total_rows = 3 * len(rows)
    expected = train_alone(job, MICRO, GradientWorker(base, job), chunks, [[0, 1]], total_rows)
    stored = [
        StoredChunk(number, "a", "a", dump_rows(chunk), 0) for number, chunk in enumerate(chunks)
    ]
    works = [gradient_work(GradientWorker(base, job), job, tmp_path) for _ in range(3)]
    workers = [
        RequestWorker(partial(ThreadWorker, work, GRADIENT_MESSAGES), read_failure)
        for work in works
    ]
    spec = reducer_worker(job)
    reduce = partial(reducer.main, argument=spec.argument)
    server = RequestWorker(partial(ThreadWorker, reduce, spec.messages), read_failure)
    validation = write_rows(tmp_path / "validation.jsonl", 3, seed=2)
    task = SlotTask(
        training=EdgeTraining(base="", cache="", config=job, rows={}, micro_batch=MICRO),
        state=None,
        total_rows=total_rows,
        workers=[
            PlacedWorker(worker, "a", stored[number::3]) for number, worker in enumerate(workers)
        ],
        server=server,
        server_site="a",
        validation=dump_rows(read_dataset(validation)),
    )
    result = SlotRun(task, np.asarray).result.result(WAIT_SECONDS)
    assert result.samples == total_rows
    assert result.validation_loss is not None
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(result.state.tensors[name], tensor)
    for one in (*workers, server):
        one.kill()
