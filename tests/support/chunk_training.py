"""Training on chunks of rows in one process: what any workers at any sites must come to."""

from collections.abc import Iterable, Mapping, Sequence

import torch

from auctune.domain.dataset import DataSet
from auctune.train.checkpoint import Checkpoint
from auctune.train.data_parallel.batches import slot_batches
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.data_parallel.reducer import PlanReducer
from auctune.train.job import LoraJob
from auctune.train.multilora.weights import FlatAdapter


def new_reducer(job: LoraJob, worker: GradientWorker, total_rows: int) -> PlanReducer:
    """Return the reducer of a new job."""
    values = torch.tensor(worker.first_weights)
    weights = FlatAdapter(worker.weights.shapes, values, torch.zeros_like(values))
    return PlanReducer(job, total_rows, weights, worker.base_digest)


def train_slot(
    job: LoraJob,
    micro_batch: int,
    state: Checkpoint | None,
    workers: Sequence[tuple[GradientWorker, Mapping[int, DataSet]]],
    total_rows: int,
) -> tuple[Checkpoint, list[float]]:
    """Train the chunks of a slot, each by the worker that has it.

    Returns:
        The state after it, and the loss of each step.
    """
    holder: dict[int, GradientWorker] = {}
    sizes: dict[int, int] = {}
    for worker, chunks in workers:
        sizes |= worker.load_chunks(chunks)
        holder |= dict.fromkeys(chunks, worker)
    reducer, losses = new_reducer(job, workers[0][0], total_rows), list[float]()
    if state is not None:
        reducer.restore(state)
    for batch in slot_batches(job.seed, job.batch_size, micro_batch, sizes, job.epochs):
        for worker, _ in workers:
            worker.set_weights(reducer.weights)
        # Whoever answers first, contributions are added in the batch's order.
        found = {part: holder[part.chunk].compute(part) for part in reversed(batch)}
        for part in batch:
            reducer.add(found[part], part.num_rows)
        point = reducer.step()
        assert point is not None
        losses.append(point[3])
    return reducer.capture(), losses


def train_alone(
    job: LoraJob,
    micro_batch: int,
    worker: GradientWorker,
    chunks: Sequence[DataSet],
    slots: Iterable[Iterable[int]],
    total_rows: int,
) -> Checkpoint:
    """Train the chunks of several slots by one worker."""
    state: Checkpoint | None = None
    for numbers in slots:
        mine = {number: chunks[number] for number in numbers}
        state, _ = train_slot(job, micro_batch, state, [(worker, mine)], total_rows)
    assert state is not None
    return state
