"""One slot of one job: has its workers compute gradients, and its parameter server take the steps.

The coordinator passes handles of weights and gradients on; it sees none of their values. Workers
compute a global batch at the same weights, each the micro-batches of its chunks, and the server
adds them up in the batch's order.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from auctune.domain import InputError
from auctune.domain.epoch_metrics import EpochMetrics
from auctune.domain.errors import AuctuneError
from auctune.engine.edge.inputs import EdgeTraining
from auctune.engine.edge.storage import StoredChunk
from auctune.engine.elastic.errors import as_slot_error
from auctune.engine.messages.base import Array
from auctune.engine.messages.elastic import (
    AdapterInitialized,
    ChunksLoaded,
    Compute,
    Export,
    InitializeAdapter,
    LoadChunks,
    Reduce,
    SaveReducer,
    StartReducer,
    Validate,
)
from auctune.engine.runtime.requests import RequestWorker
from auctune.train.checkpoint import Checkpoint
from auctune.train.data_parallel.batches import ChunkRows, Contribution, slot_batches
from auctune.train.job import CurvePoint

_POLL_SECONDS = 0.1


class SlotCancelledError(AuctuneError):
    """The slot's time is over."""


@dataclass(frozen=True, slots=True)
class RowProgress:
    """Progress of a job's slot: rows that are trained, and seconds since its first step."""

    rows: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class PlacedWorker:
    """A worker of a slot: where it is, and the chunks that it trains."""

    worker: RequestWorker
    site: str
    chunks: Sequence[StoredChunk]

    @cached_property
    def numbers(self) -> frozenset[int]:
        """Numbers of its chunks."""
        return frozenset(one.chunk for one in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotTask:
    """What a slot trains, and who computes it.

    Attributes:
        training: of the job.
        state: from which it goes on; None before the first step.
        total_rows: of the whole job, over all epochs.
        workers: each chunk is one's.
        server: the parameter server, and its site.
        number: of the slot among those in which the job trains, from 1.
        validation: rows to measure by, which the first worker evaluates, or None.
        is_last: whether the adapter is exported after it.
    """

    training: EdgeTraining
    state: Checkpoint | None
    total_rows: int
    workers: Sequence[PlacedWorker]
    server: RequestWorker
    server_site: str
    number: int = 1
    validation: Array | None = None
    is_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotResult:
    """Result of a job's slot.

    Attributes:
        state: after it.
        samples: rows that were trained, over all epochs.
        losses: of its steps; rows and tokens since the job began.
        loss: mean over the tokens of its last epoch, as they were met; None if there were none.
        validation_loss, validation_accuracy: at its end; None without validation data.
        chunks_crossed, chunk_bytes: chunks that workers got from other sites.
        parameter_bytes: weights and gradients that crossed sites.
        seconds: from the first step to the last.
        kept: files of the adapter in PEFT's format, by name; None where training has diverged.
        adapter: the same after the last slot, compared with PEFT's; else None.
    """

    state: Checkpoint
    samples: int
    losses: tuple[CurvePoint, ...]
    loss: float | None
    validation_loss: float | None
    validation_accuracy: float | None
    chunks_crossed: int
    chunk_bytes: int
    parameter_bytes: int
    seconds: float
    kept: dict[str, bytes] | None
    adapter: dict[str, bytes] | None


class SlotRun:
    """Trains a slot on a thread of its own.

    Args:
        task: the slot.
        fetch: returns the array of a handle.
        previous: run of the same workers, which has ended or was cancelled, or None.

    Attributes:
        result: future of the slot's result. It raises `InputError` if the job cannot be trained,
            `SlotError` if the slot was not, and `SlotCancelledError`.
    """

    def __init__(
        self, task: SlotTask, fetch: Callable[[Any], Array], previous: "SlotRun | None" = None
    ) -> None:
        self._task, self._fetch_array, self._previous = task, fetch, previous
        self._cancelled = threading.Event()
        self._rows, self._begun = 0, math.inf
        self.result: Future[SlotResult] = Future()
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def progress(self) -> RowProgress:
        """Rows that are trained so far."""
        return RowProgress(self._rows, max(0.0, time.perf_counter() - self._begun))

    def cancel(self) -> None:
        """Cancel the slot; its workers may still compute what they were sent."""
        self._cancelled.set()

    def _run(self) -> None:
        try:
            if self._previous is not None:
                # Its thread sends no more requests once it has ended.
                self._previous.result.exception()
                self._previous = None
            # Ray raises errors of many types where an array was lost with its site.
            with as_slot_error():
                result = self._train()
            self.result.set_result(result)
        except Exception as error:
            self.result.set_exception(error)

    def _train(self) -> SlotResult:
        task, job = self._task, self._task.training.config
        loaded = self._load_chunks()
        sizes = {chunk: rows for one in loaded for chunk, rows in one.sizes.items()}
        weights, num_bytes = self._begin()
        self._begun, crossed = time.perf_counter(), 0
        losses: list[CurvePoint] = []
        last_epoch, last_targets = 0.0, 0
        batches = slot_batches(
            job.seed, job.batch_size, task.training.micro_batch, sizes, job.epochs
        )
        for batch in batches:
            found, num_copies = self._compute(weights, batch)
            crossed += num_copies * num_bytes
            num_rows = [part.num_rows for part in batch]
            request = Reduce(num_rows=num_rows, is_last=True).with_contributions(found)
            (reduced,) = self._wait([task.server.request(request)])
            (weights,), (point,) = reduced.arrays, reduced.points
            loss = point[3]
            self._rows += sum(num_rows)
            losses.append(point)
            if batch[0].epoch == job.epochs - 1:
                last_epoch += sum(one.loss for one in found)
                last_targets += sum(one.num_targets for one in found)
            if not math.isfinite(loss):
                # It has diverged, and no step will mend it.
                last_epoch, last_targets = loss, 1
                break
        validation_loss = validation_accuracy = None
        if num_validated := loaded[0].num_validation_rows:
            validation_loss, validation_accuracy = self._validate(weights, num_validated)
        seconds = time.perf_counter() - self._begun
        kept = adapter = None
        if math.isfinite(last_epoch + (validation_loss or 0.0)):
            if losses:
                metrics = self._metrics(losses[-1], validation_loss, validation_accuracy)
                kept = self._export(weights, sizes, metrics)
            if task.is_last:
                adapter = self._export(weights, sizes)
        away = [
            one for worker in task.workers for one in worker.chunks if one.origin != worker.site
        ]
        return SlotResult(
            state=self._save(),
            samples=self._rows,
            losses=tuple(losses),
            loss=last_epoch / last_targets if last_targets else None,
            validation_loss=validation_loss,
            validation_accuracy=validation_accuracy,
            chunks_crossed=len(away),
            chunk_bytes=sum(one.num_bytes for one in away),
            parameter_bytes=crossed,
            seconds=seconds,
            kept=kept,
            adapter=adapter,
        )

    def _load_chunks(self) -> list[ChunksLoaded]:
        """Have workers load the chunks of the slot; none computes before all have them."""
        requests = []
        for number, one in enumerate(self._task.workers):
            has_validation = number == 0 and self._task.validation is not None
            arrays = [chunk.content for chunk in one.chunks]
            request = LoadChunks(
                chunks=[chunk.chunk for chunk in one.chunks],
                has_validation=has_validation,
                arrays=[*arrays, self._task.validation] if has_validation else arrays,
            )
            requests.append(one.worker.request(request))
        return self._wait(requests)

    def _begin(self) -> tuple[Any, int]:
        """Give the server the state from which the slot goes on.

        Before it, all workers get the adapter that a job with pairs started from, by which they
        compute references; the first worker gets that of any new job, and has its weights.

        Returns:
            Handle of the weights, and their bytes.

        Raises:
            InputError: if the workers' bases differ.
        """
        task, first = self._task, self._task.workers[0].worker
        config = task.training.config
        has_references = config.method == "dpo" and config.start_from is not None
        started = [one.worker for one in task.workers] if has_references else [first]
        adapters: list[AdapterInitialized] = []
        if task.state is None or has_references:
            start = config.start_from
            arrays = [] if start is None else [np.fromfile(start, np.uint8)]
            request = InitializeAdapter(arrays=arrays)
            adapters = self._wait([worker.request(request) for worker in started])
        if task.state is None:
            begin = StartReducer(
                base_digest=first.ready.base_digest,
                num_parameters=sum(map(math.prod, adapters[0].shapes.values())),
                total_rows=task.total_rows,
                arrays=adapters[0].arrays,
            )
        else:
            begin = StartReducer(
                base_digest=task.state.state["base_digest"],
                num_parameters=task.state.tensors["exp_avg"].size,
                total_rows=task.total_rows,
            ).with_checkpoint(task.state)
        for one in task.workers:
            if (found := one.worker.ready.base_digest) != begin.base_digest:
                raise InputError(
                    "base",
                    f"of digest {found[:12]} at site {one.site}",
                    f"{begin.base_digest[:12]}, with which the job began",
                )
        (begun,) = self._wait([task.server.request(begin)])
        return begun.arrays[0], 4 * begin.num_parameters

    def _compute(self, weights: Any, batch: Sequence[ChunkRows]) -> tuple[list[Contribution], int]:
        """Return the gradients of a batch in its order, and how often arrays crossed sites.

        Weights cross once to each site, as its workers share what the site has; gradients each.
        """
        calls, requests = [], []
        for one in self._task.workers:
            numbers = one.numbers
            if mine := [part for part in batch if part.chunk in numbers]:
                calls.append((one, mine))
                requests.append(one.worker.request(Compute(parts=mine, arrays=[weights])))
        found: dict[ChunkRows, Contribution] = {}
        for (_, mine), answer in zip(calls, self._wait(requests), strict=True):
            found |= zip(mine, answer.split(), strict=True)
        away = [(one.site, len(mine)) for one, mine in calls if one.site != self._task.server_site]
        contributions = [found[part] for part in batch]
        return contributions, len({site for site, _ in away}) + sum(count for _, count in away)

    def _validate(self, weights: Any, num_rows: int) -> tuple[float, float]:
        """Return the mean loss and accuracy on the first worker's rows to measure by."""
        worker, size = self._task.workers[0].worker, self._task.training.micro_batch
        loss, hits, num_targets = 0.0, 0, 0
        for first in range(0, num_rows, size):
            request = Validate(first=first, count=size, arrays=[weights])
            (answer,) = self._wait([worker.request(request)])
            (part,) = answer.split()
            loss, hits = loss + part.loss, hits + part.hits
            num_targets += part.num_targets
        return loss / num_targets, hits / num_targets

    def _metrics(self, last: CurvePoint, *validation: float | None) -> EpochMetrics:
        """Return the metrics of a slot: of its last step, and of its validation."""
        step, _, _, loss, accuracy = last
        return EpochMetrics(self._task.number, step, loss, accuracy, *validation)

    def _export(
        self, weights: Any, sizes: Mapping[int, int], metrics: EpochMetrics | None = None
    ) -> dict[str, bytes]:
        """Have the first worker that has rows export the adapter, or else the first one.

        Args:
            weights: handle of its weights.
            sizes: rows by chunk.
            metrics: of the slot after which it is kept; None: it is the job's result.
        """
        workers = self._task.workers
        able = (one for one in workers if any(sizes[number] for number in one.numbers))
        worker = next(able, workers[0]).worker
        (files,) = self._wait([worker.request(Export(metrics=metrics, arrays=[weights]))])
        contents = (self._fetch(handle).tobytes() for handle in files.arrays)
        return dict(zip(files.names, contents, strict=True))

    def _save(self) -> Checkpoint:
        (saved,) = self._wait([self._task.server.request(SaveReducer())])
        arrays = [self._fetch(one) for one in saved.arrays]
        checkpoint: Checkpoint = replace(saved, arrays=arrays).checkpoint()
        return checkpoint

    def _fetch(self, handle: Any) -> Array:
        if self._cancelled.is_set():
            raise SlotCancelledError("the slot is over")
        return self._fetch_array(handle)

    def _wait(self, requests: Sequence[Future[Any]]) -> list[Any]:
        """Return all answers.

        Raises:
            SlotCancelledError: if the slot is cancelled meanwhile.
            AuctuneError: if a worker could not answer.
        """
        while not self._cancelled.is_set():
            done, waiting = wait(requests, _POLL_SECONDS, return_when=FIRST_EXCEPTION)
            if not waiting or any(one.exception() for one in done):
                return [one.result() for one in requests if one in done]
        raise SlotCancelledError("the slot is over")
