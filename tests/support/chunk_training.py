"""Training on chunks of rows in one process: what any workers at any sites must come to."""

from collections.abc import Iterable, Mapping, Sequence

from auctune.domain.dataset import DataSet
from auctune.train.data_parallel.batches import slot_batches
from auctune.train.data_parallel.chunk_worker import ChunkWorker
from auctune.train.data_parallel.reducer import AdapterReducer, AdapterState
from auctune.train.job import LoraJob


def train_slot(
    job: LoraJob,
    micro_batch: int,
    state: AdapterState | None,
    workers: Sequence[tuple[ChunkWorker, Mapping[int, DataSet]]],
    total_rows: int,
) -> tuple[AdapterState, list[float]]:
    """Train the chunks of a slot, each by the worker that has it.

    Returns:
        The state after it, and the loss of each step.
    """
    holder: dict[int, ChunkWorker] = {}
    sizes: dict[int, int] = {}
    for worker, chunks in workers:
        sizes |= worker.load(chunks)
        holder |= dict.fromkeys(chunks, worker)
    first = workers[0][0]
    if state is None:
        state = AdapterState.first(first.first_weights, first.base_digest)
    reducer, losses = AdapterReducer(job, state, total_rows), []
    for batch in slot_batches(job.seed, job.batch_size, micro_batch, sizes, job.epochs):
        for worker, _ in workers:
            worker.set_weights(reducer.weights)
        # Whoever answers first, contributions are added in the batch's order.
        found = {part: holder[part.chunk].compute(part) for part in reversed(batch)}
        rows = sum(part.num_rows for part in batch)
        losses.append(reducer.reduce([found[part] for part in batch], rows)[0])
    return reducer.state(), losses


def train_alone(
    job: LoraJob,
    micro_batch: int,
    worker: ChunkWorker,
    chunks: Sequence[DataSet],
    slots: Iterable[Iterable[int]],
    total_rows: int,
) -> AdapterState:
    """Train the chunks of several slots by one worker."""
    state: AdapterState | None = None
    for numbers in slots:
        mine = {number: chunks[number] for number in numbers}
        state, _ = train_slot(job, micro_batch, state, [(worker, mine)], total_rows)
    assert state is not None
    return state
