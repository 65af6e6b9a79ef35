"""What runs at the sites: plain classes that `job_actors` and `storage` make actors of Ray.

Rows go from a site's store to the workers of the plan. From workers to the parameter server, and
from there to the driver, go gradients, losses, counts and the adapter's weights alone.

Ray is imported where it is used: a local cluster sets its environment before.
"""

import hashlib
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.domain.dataset import DataSet, read_dataset
from auctune.run.edge.training import EdgeTraining, cut_chunks
from auctune.train.data_parallel.batches import ChunkRows, Contribution, Floats, slot_batches
from auctune.train.data_parallel.reducer import AdapterReducer, AdapterState

_POLL_SECONDS = 0.1


class SlotCancelledError(Exception):
    """The slot's time is over."""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk in the object store.

    Attributes:
        chunk: its number within its job.
        origin: the site of its rows.
        host: the site whose store holds it: the origin, or another one if that was lost.
        content: reference to its `DataSet`.
        num_bytes: of its rows.
    """

    chunk: int
    origin: str
    host: str
    content: Any
    num_bytes: int


@dataclass(frozen=True, slots=True)
class LoadedChunks:
    """What a worker says of the chunks of a slot, once it has them.

    Attributes:
        sizes: rows by chunk that have something to learn.
        num_crossed, num_bytes: chunks that came from other sites, and their bytes.
        base_digest: of the worker's base.
    """

    sizes: dict[int, int]
    num_crossed: int
    num_bytes: int
    base_digest: str


@dataclass(frozen=True, slots=True)
class WorkerRef:
    """A worker as its server sees it: its actor, its site, and the chunks that it trains."""

    actor: Any
    site: str
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SlotTask:
    """A slot for a parameter server.

    Attributes:
        state: from which it goes on; None before the first step.
        workers: each chunk is one's.
        loading: references to each worker's `LoadedChunks`; none computes before all have them.
        validation: reference to rows to measure by, or None.
        is_last: whether the adapter is exported after it.
    """

    state: AdapterState | None
    workers: Sequence[WorkerRef]
    loading: Sequence[Any]
    validation: Any = None
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class SlotResult:
    """Result of a job's slot.

    Attributes:
        state: after it.
        samples: rows that were trained, over all epochs.
        losses: step, rows and tokens since the job began, and mean loss, of each step.
        loss: mean over the tokens of its last epoch, as they were met; None if there were none.
        validation_loss: at its end; None without validation data.
        chunks_crossed, chunk_bytes: chunks that workers fetched from other sites.
        parameter_bytes: weights and gradients that crossed sites.
        seconds: from the first step to the last.
        adapter: files in PEFT's format by name, after the last slot; else None, as
            where training has diverged.
    """

    state: AdapterState
    samples: int
    losses: tuple[tuple[int, int, int, float], ...]
    loss: float | None
    validation_loss: float | None
    chunks_crossed: int
    chunk_bytes: int
    parameter_bytes: int
    seconds: float
    adapter: dict[str, bytes] | None


class SiteStore:
    """A site's share of the object store."""

    def __init__(self) -> None:
        self._held: dict[str, list[Any]] = {}

    def put(
        self,
        job: str,
        site: str,
        source: str | bytes,
        count: int,
        seed: int,
        expected_digest: str | None = None,
    ) -> tuple[str, list[tuple[Any, int, int]]]:
        """Cut a site's rows into chunks, and keep them in the store of this node.

        Args:
            job: whose.
            site: at which the rows lie.
            source: a file at this site, or the content of an upload.
            count: of chunks.
            seed: of the order of rows.
            expected_digest: of the content that was read before, or None at the first time.

        Returns:
            The SHA-256 of the content, and for each chunk a reference to it, its number of rows,
            and their bytes.

        Raises:
            InputError: if the rows cannot be used, or are not those that were read before.
        """
        import ray

        place = f"market.sites.{site}"
        if isinstance(source, str):
            try:
                source = Path(source).read_bytes()
            except OSError as error:
                found = f"cannot be read ({error.strerror})"
                raise InputError(place, found, "a JSONL file") from None
        digest = hashlib.sha256(source).hexdigest()
        if expected_digest not in (None, digest):
            raise InputError(place, "has changed", "the rows with which the job began")
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            file.write(source)
            file.flush()
            chunks = cut_chunks(Path(file.name), site, count, seed)
        stored = [(ray.put(chunk), len(chunk), _num_bytes(chunk)) for chunk in chunks]
        self._held[f"{job}@{site}"] = [reference for reference, _, _ in stored]
        return digest, stored

    def drop(self, job: str) -> None:
        """Release a job's chunks."""
        self._held = {
            name: held for name, held in self._held.items() if name.rpartition("@")[0] != job
        }


class Worker:
    """Computes gradients on the chunks that it holds.

    Args:
        training: of its job.
        site: where it is.
        device: of torch.
    """

    def __init__(self, training: EdgeTraining, site: str, device: str) -> None:
        # Only workers load torch and transformers.
        import torch

        from auctune.train.base import load_base
        from auctune.train.data_parallel.chunk_worker import ChunkWorker

        torch.set_num_threads(training.threads)
        base = load_base(
            training.base, cache=Path(training.cache), device=device, dtype=training.dtype
        )
        self._worker = ChunkWorker(base, training.config, threads=training.threads)
        self._site = site

    def ready(self) -> None:
        """Answer once the worker has started."""

    def first_state(self) -> AdapterState:
        """Return the state before the first step."""
        return AdapterState.first(self._worker.first_weights, self._worker.base_digest)

    def load_chunks(self, stored: Sequence[StoredChunk]) -> LoadedChunks:
        """Fetch the chunks of a slot; those that it held before go."""
        import ray

        contents: list[DataSet] = ray.get([one.content for one in stored])
        numbers = [one.chunk for one in stored]
        sizes = self._worker.load(dict(zip(numbers, contents, strict=True)))
        away = [one for one in stored if one.origin != self._site]
        num_bytes = sum(one.num_bytes for one in away)
        return LoadedChunks(sizes, len(away), num_bytes, self._worker.base_digest)

    def compute(self, weights: Floats, parts: Sequence[ChunkRows]) -> list[Contribution]:
        """Return the gradients of micro-batches, in their order."""
        self._worker.set_weights(weights)
        return [self._worker.compute(part) for part in parts]

    def mean_loss(self, weights: Floats, rows: DataSet) -> float:
        """Return the mean loss on other rows."""
        self._worker.set_weights(weights)
        return self._worker.mean_loss(rows)

    def export(self, weights: Floats) -> dict[str, bytes]:
        """Return the files of the adapter, loaded back by PEFT and checked on rows here."""
        self._worker.set_weights(weights)
        return self._worker.export()


class ParameterServer:
    """Holds a job's weights, hands them out and adds gradients up.

    Args:
        training: of its job.
        site: where it is.
        total_rows: of the whole job, over all epochs.
    """

    def __init__(self, training: EdgeTraining, site: str, total_rows: int) -> None:
        self._training, self._site, self._total_rows = training, site, total_rows
        self._rows_done, self._cancelled = 0, -1

    def rows_done(self) -> int:
        """Return the rows trained in the running slot; called from another thread."""
        return self._rows_done

    def cancel(self, call: int) -> None:
        """Cancel a call; called on another thread, maybe before the call begins."""
        self._cancelled = call

    def run(self, task: SlotTask, call: int = 0) -> SlotResult:
        """Train one slot's chunks.

        Args:
            task: the slot.
            call: number of the call, for `cancel`.

        Raises:
            SlotCancelledError: if it was cancelled.
            InputError: if the workers' bases differ.
        """
        import ray

        self._rows_done = 0
        loaded = self._wait_for_chunks(task, call)
        sizes = {chunk: count for one in loaded for chunk, count in one.sizes.items()}
        state = task.state or ray.get(task.workers[0].actor.first_state.remote())
        _check_bases(task, loaded, state)
        config = self._training.config
        reducer = AdapterReducer(config, state, self._total_rows)
        begun, crossed = time.perf_counter(), 0
        losses: list[tuple[int, int, int, float]] = []
        diverged, last_epoch, last_targets = False, 0.0, 0
        batches = slot_batches(
            config.seed, config.batch_size, self._training.micro_batch, sizes, config.epochs
        )
        for batch in batches:
            self._check_not_cancelled(call)
            contributions, sent = self._gather(reducer.weights, task.workers, batch)
            crossed += sent
            num_rows = sum(part.num_rows for part in batch)
            loss = reducer.reduce(contributions, num_rows)
            self._rows_done += num_rows
            losses.append((*reducer.counts, loss))
            if batch[0].epoch == config.epochs - 1:
                last_epoch += sum(one.loss for one in contributions)
                last_targets += sum(one.num_targets for one in contributions)
            if not math.isfinite(loss):
                # It has diverged, and no step will mend it.
                diverged, last_epoch, last_targets = True, loss, 1
                break
        weights, able = reducer.weights, _with_rows(task, sizes)
        return SlotResult(
            state=reducer.state(),
            samples=self._rows_done,
            losses=tuple(losses),
            loss=last_epoch / last_targets if last_targets else None,
            validation_loss=(
                None
                if task.validation is None
                else ray.get(able.mean_loss.remote(weights, task.validation))
            ),
            chunks_crossed=sum(one.num_crossed for one in loaded),
            chunk_bytes=sum(one.num_bytes for one in loaded),
            parameter_bytes=crossed,
            seconds=time.perf_counter() - begun,
            adapter=(
                ray.get(able.export.remote(weights)) if task.is_last and not diverged else None
            ),
        )

    def _wait_for_chunks(self, task: SlotTask, call: int) -> list[LoadedChunks]:
        import ray

        # An actor keeps the order of one caller's calls, not that between two callers.
        waiting = list(task.loading)
        while waiting:
            self._check_not_cancelled(call)
            waiting = ray.wait(waiting, num_returns=len(waiting), timeout=_POLL_SECONDS)[1]
        loaded: list[LoadedChunks] = ray.get(list(task.loading))
        return loaded

    def _check_not_cancelled(self, call: int) -> None:
        if call <= self._cancelled:
            raise SlotCancelledError

    def _gather(
        self, weights: Floats, workers: Sequence[WorkerRef], batch: Sequence[ChunkRows]
    ) -> tuple[list[Contribution], int]:
        """Return all contributions in the batch's order, and the bytes that crossed sites.

        Weights cross once to each site, as nodes share what their store has; gradients each.
        """
        import ray

        shared = ray.put(weights)
        calls, answers = [], []
        for worker in workers:
            mine = [part for part in batch if part.chunk in worker.chunks]
            if mine:
                calls.append((worker, mine))
                answers.append(worker.actor.compute.remote(shared, mine))
        found: dict[ChunkRows, Contribution] = {}
        for (_, mine), contributions in zip(calls, ray.get(answers), strict=True):
            found |= zip(mine, contributions, strict=True)
        away = [(worker.site, len(mine)) for worker, mine in calls if worker.site != self._site]
        copies = len({site for site, _ in away}) + sum(count for _, count in away)
        return [found[part] for part in batch], copies * weights.nbytes


def read_validation(path: str) -> DataSet:
    """Return the rows of a validation file.

    Raises:
        InputError: if they cannot be used.
    """
    return read_dataset(Path(path), "validation_file")


def _check_bases(task: SlotTask, loaded: Sequence[LoadedChunks], state: AdapterState) -> None:
    """Check that all workers adapt the base that the job began with."""
    for worker, one in zip(task.workers, loaded, strict=True):
        if one.base_digest != state.base_digest:
            found = f"of digest {one.base_digest[:12]} at site {worker.site}"
            expected = f"{state.base_digest[:12]}, with which the job began"
            raise InputError("base", found, expected)


def _with_rows(task: SlotTask, sizes: Mapping[int, int]) -> Any:
    """Return the actor of the first worker that has rows, or else of the first one."""
    for worker in task.workers:
        if any(sizes[chunk] for chunk in worker.chunks):
            return worker.actor
    return task.workers[0].actor


def _num_bytes(chunk: DataSet) -> int:
    """Return the bytes of a chunk's texts."""
    return sum(len(str(row).encode()) for row in chunk.rows)
