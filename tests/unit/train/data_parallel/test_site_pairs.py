"""Preferences learnt from chunks at sites, as by one process and by the trainer of a node."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from auctune.datasets import read_dataset
from auctune.domain.dataset import DataSet
from auctune.train.base import Base
from auctune.train.checkpoint import Checkpoint
from auctune.train.data_parallel.batches import ChunkRows
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob
from auctune.train.trainer import MultiLoraTrainer
from support.chunk_training import new_reducer, train_alone, train_slot
from support.peft_adapters import start_of
from support.small_bases import FAMILIES, build_base, write_pairs

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

MICRO, EPOCHS, NUM_PAIRS = 2, 2, 11
# Chunks of the plan's slots.
SLOTS = ((0, 2), (1, 3))


@pytest.fixture(scope="module", params=FAMILIES)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Base:
    return build_base(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.jsonl", NUM_PAIRS)


@pytest.fixture(scope="module")
def data(file: Path) -> DataSet:
    return read_dataset(file)


@pytest.fixture(scope="module")
def chunks(data: DataSet) -> list[DataSet]:
    """Four chunks of unequal sizes."""
    return [DataSet(data.kind, data.rows[first:stop]) for first, stop in pairwise((0, 3, 5, 9, 11))]


@pytest.fixture(scope="module", params=[False, True], ids=["from_the_base", "from_an_adapter"])
def job(
    request: pytest.FixtureRequest, base: Base, tmp_path_factory: pytest.TempPathFactory
) -> LoraJob:
    family = "gpt2" if base.model.config.model_type == "gpt2" else "llama"
    folder = tmp_path_factory.mktemp("job")
    return LoraJob(
        id="job", data=Path(), method="dpo", beta=0.3, epochs=EPOCHS, dropout=0.2, batch_size=4,
        learning_rate=3e-3, schedule="cosine", max_length=24, seed=5,
        **({"rank": 4} if not request.param else start_of(folder, base, family)),
    )  # fmt: skip


def new_worker(base: Base, job: LoraJob) -> GradientWorker:
    """A worker that has the adapter that its job starts from, as each worker of such a job."""
    worker = GradientWorker(base, job)
    if job.start_from is not None:
        worker.start_from(job.start_from)
    return worker


def is_same(one: Checkpoint, other: Checkpoint) -> bool:
    same = all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)
    return same and one.state == other.state


@pytest.mark.parametrize("num_workers", [2, 4])
def test_any_number_of_workers_comes_to_the_bits_of_one(
    base: Base, job: LoraJob, chunks: list[DataSet], num_workers: int
) -> None:
    total = EPOCHS * NUM_PAIRS
    slots = ((0, 1, 2, 3),) if num_workers == 4 else SLOTS
    alone = train_alone(job, MICRO, new_worker(base, job), chunks, slots, total)
    state: Checkpoint | None = None
    for numbers in slots:
        # New ones in each slot, which goes on from the checkpoint alone.
        parts = [(new_worker(base, job), {number: chunks[number]}) for number in numbers]
        assert len(parts) == num_workers
        state, _ = train_slot(job, MICRO, state, parts[::-1], total)
    assert state is not None
    assert is_same(state, alone)
    assert not np.array_equal(state.tensors["adapter"], new_worker(base, job).first_weights)


def test_weights_and_metrics_are_those_of_the_trainer_of_a_node(
    base: Base, job: LoraJob, file: Path, data: DataSet, tmp_path: Path
) -> None:
    """In batches of all pairs, which have no order; without dropout, which is keyed by place."""
    whole = replace(job, data=file, validation=file, epochs=4, batch_size=NUM_PAIRS, dropout=0.0)
    node = MultiLoraTrainer(base)
    node.load(whole, tmp_path)
    node.train({whole.id: 10**6}, lambda _: None)

    worker = new_worker(base, whole)
    reducer = new_reducer(whole, worker, 4 * NUM_PAIRS)
    points = []
    for epoch in range(whole.epochs):
        worker.load_chunks({7: data}, data)
        worker.set_weights(reducer.weights)
        for first in range(0, NUM_PAIRS, MICRO):
            part = ChunkRows(7, epoch, first, min(first + MICRO, NUM_PAIRS))
            reducer.add(worker.compute(part), part.num_rows)
        point = reducer.step()
        assert point is not None
        points.append(point)
    assert len(points) == 4
    np.testing.assert_allclose(points, node.curve(whole.id), rtol=0, atol=1e-5)
    worker.set_weights(reducer.weights)
    for name, tensor in worker.weights.named(worker.weights.values).items():
        torch.testing.assert_close(tensor, node.weights(whole.id)[name], rtol=0, atol=1e-5)
    measured = worker.validate(0, NUM_PAIRS)
    *_, loss, accuracy = node.progress(whole.id).validation[-1]
    assert measured.num_targets == NUM_PAIRS
    assert measured.loss / NUM_PAIRS == pytest.approx(loss, abs=1e-5)
    assert measured.hits / NUM_PAIRS == pytest.approx(accuracy)


def test_pairs_are_at_log_2_where_the_job_starts(
    base: Base, job: LoraJob, chunks: list[DataSet]
) -> None:
    """The reference is the adapter that the job starts from, or else the base."""
    worker = new_worker(base, replace(job, dropout=0.0))
    worker.load_chunks({0: chunks[0]})
    worker.set_weights(worker.first_weights)
    assert worker.compute(ChunkRows(0, 0, 0, 2)).loss == pytest.approx(2 * math.log(2), rel=1e-6)
