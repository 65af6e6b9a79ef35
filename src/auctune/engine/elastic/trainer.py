"""A job whose rows are in a file, trained by workers that come and go; needs no torch.

It hands out the micro-batches of a batch, delivers what workers made of them to the job's reducer
in their order, and writes its checkpoints. It does not know the workers: whoever computes, a
micro-batch is the same, and one whose worker exited is requeued.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auctune.domain.epoch_metrics import EpochMetrics
from auctune.domain.errors import CheckpointError
from auctune.engine.messages.base import Array
from auctune.engine.messages.elastic import (
    AdapterInitialized,
    CountValidated,
    FileLoaded,
    InitializeAdapter,
    LoadFile,
    Reduce,
    Reduced,
    ReducerSaved,
    SaveReducer,
    StartReducer,
)
from auctune.engine.runtime.requests import STUCK_SECONDS, RequestWorker
from auctune.train.checkpoint import CHECKPOINTS, Checkpoint, load_latest, save_checkpoint
from auctune.train.data_parallel.batches import Contribution, RowRange, cut_batch
from auctune.train.job import CurvePoint, JobState, LoraJob, Progress
from auctune.train.row_cursor import DataCounts, RowCursor


@dataclass(frozen=True, slots=True, eq=False)
class JobFacts:
    """What a gradient worker has found of a job.

    Attributes:
        base_digest: of its base.
        counts: of its rows.
        shapes: of the adapter's parameters by their names, in order.
        first_weights: float32 [num_parameters], before the first step.
        notes: sentences on rows that are truncated or left out.
    """

    base_digest: str
    counts: DataCounts
    shapes: Mapping[str, tuple[int, ...]]
    first_weights: Array
    notes: tuple[str, ...] = ()


def read_facts(worker: RequestWorker) -> JobFacts:
    """Return what a gradient worker finds of its job; waits for it.

    Raises:
        InputError: if the job, its base or its data cannot be used.
    """
    answers = [worker.request(LoadFile()), worker.request(InitializeAdapter())]
    file: FileLoaded = worker.result(answers[0])
    adapter: AdapterInitialized = worker.result(answers[1])
    return JobFacts(
        base_digest=worker.ready.base_digest,
        counts=file.counts,
        shapes=adapter.shapes,
        first_weights=adapter.arrays[0],
        notes=file.notes,
    )


class ElasticTrainer:
    """Progress of one job.

    Args:
        job: to train; `batch_size` is the global batch.
        facts: of the job.
        reducer: of the job, which is started.
        folder: of its checkpoints; it goes on from the newest whole one.
        micro_batch: rows that go through the model together on a worker.

    Attributes:
        facts: of the job.
        warnings: damaged checkpoints that were skipped, other library versions.
        weights: float32 [num_parameters], those of the current step; never changed.

    Raises:
        CheckpointError: if its checkpoints are damaged.
        WorkerEndedError, SlotError: if the reducer has ended, or cannot use its checkpoint or do
            what is requested; so do all methods that change something.
    """

    def __init__(
        self, job: LoraJob, facts: JobFacts, reducer: RequestWorker, folder: Path, micro_batch: int
    ) -> None:
        self.facts = facts
        self._job, self._reducer, self._micro_batch = job, reducer, micro_batch
        self._folder = folder / CHECKPOINTS
        self._cursor = RowCursor(job, facts.counts)
        self._waiting: list[RowRange] = []
        self._arrived: dict[int, Contribution] = {}
        self._requests: list[Future[Any]] = []
        self._batch_tokens = 0
        start = StartReducer(
            base_digest=facts.base_digest,
            num_parameters=facts.first_weights.size,
            counts=facts.counts,
            shapes=facts.shapes,
            arrays=[facts.first_weights],
        )
        found, damaged = load_latest(self._folder, as_arrays=True), list[str]()
        if found is not None:
            checkpoint, _, damaged = found
            start = start.with_checkpoint(checkpoint)
        started: Reduced = reducer.result(reducer.request(start), STUCK_SECONDS)
        self.warnings = (*damaged, *started.warnings)
        # Points that were not reported yet.
        self._losses: list[CurvePoint] = []
        self._loss: float | None = None
        self._take(started)
        self._cursor.seek(started.progress.rows)
        self._open_batch()

    @property
    def state(self) -> JobState:
        """State of the training: it goes on, or how it has ended."""
        return self._progress.state

    @property
    def is_done(self) -> bool:
        """Return whether the training has ended."""
        return self.state != "training"

    @property
    def step(self) -> int:
        """Steps that the weights have taken; they are the same as long as it is."""
        return self._progress.steps

    @property
    def rows(self) -> int:
        """Rows trained and validated so far, over all epochs, in their order."""
        return self._cursor.done_rows

    @property
    def total_rows(self) -> int:
        """Rows of all epochs, those of the validation data included."""
        return self._cursor.total_rows

    @property
    def done_cost(self) -> float:
        """Cost of the rows so far, in rows trained: to evaluate a row costs less."""
        return self._cursor.done_cost

    @property
    def total_cost(self) -> float:
        """Cost of all rows of all epochs."""
        return self._cursor.total_cost

    def next_micro_batch(self) -> RowRange | None:
        """Return a micro-batch to compute, or None if all of the batch are handed out."""
        return self._waiting.pop() if self._waiting else None

    def requeue(self, part: RowRange) -> None:
        """Hand out a micro-batch again: its worker will not deliver it."""
        if self._is_missing(part):
            # The parts that are needed first are at the end.
            self._waiting = sorted({*self._waiting, part}, reverse=True)

    def add_gradient(self, part: RowRange, contribution: Contribution) -> None:
        """Add the gradient of a micro-batch; a repeated one, or of an earlier batch, is ignored."""
        if self._is_missing(part):
            self._arrived[part.first] = contribution
            if part in self._waiting:
                self._waiting.remove(part)

    def advance(self) -> int:
        """Count the next part in order, if it has arrived; the last of a batch takes a step.

        Returns:
            Its rows; 0 if nothing has changed.
        """
        cursor = self._cursor
        if self.is_done or self.rows not in self._arrived:
            return 0
        one = self._arrived.pop(self.rows)
        is_validation = cursor.is_validating
        remaining = cursor.validation_remaining if is_validation else cursor.batch_remaining
        num_rows = min(self._micro_batch, remaining)
        is_last = num_rows == remaining
        kind = CountValidated if is_validation else Reduce
        request = kind(num_rows=[num_rows], is_last=is_last).with_contributions([one])
        # One after the other, without waiting for the answers.
        self._requests.append(self._reducer.request(request))
        self._batch_tokens += one.num_tokens
        cursor.seek(self.rows + num_rows)
        if is_last:
            self._take(self._finish_requests())
            self._open_batch()
        return num_rows

    def progress(self) -> Progress:
        """Return where the job stands, with the points since the last call."""
        losses, self._losses = self._losses, []
        state, num_rows = self._progress, self._cursor.counts.num_rows
        return Progress(
            job=self._job.id,
            rows=self.rows,
            total_rows=self.total_rows,
            tokens=state.tokens + self._batch_tokens,
            steps=state.steps,
            loss=self._loss,
            losses=tuple(losses),
            validation=tuple(
                (epoch, epoch * num_rows, loss, accuracy)
                for epoch, loss, accuracy in state.validation
            ),
            state=state.state,
            note=state.note,
        )

    def save(self) -> Path:
        """Write a checkpoint, whose number is that of the rows trained."""
        return save_checkpoint(self._folder, self.rows, self.checkpoint())

    def adapters(self) -> Iterator[tuple[EpochMetrics | None, Array]]:
        """Yield the weights of the job's adapter, and of its last epochs with their metrics."""
        yield None, self.weights
        kept = self.checkpoint()
        validation = {epoch: rest for epoch, *rest in kept.state["validation"]}
        for epoch, *rest in kept.state.get("epochs", ()):
            metrics = EpochMetrics(epoch, *rest, *validation.get(epoch, (None, None)))
            yield metrics, kept.tensors[f"epoch/{epoch}"]

    def checkpoint(self) -> Checkpoint:
        """Return all that the training goes on from; its tensors are arrays."""
        self._requests.append(self._reducer.request(SaveReducer()))
        saved: ReducerSaved = self._finish_requests()
        return saved.checkpoint()

    def _finish_requests(self) -> Any:
        """Wait for all answers of the reducer, and return the last one."""
        requests, self._requests = self._requests, []
        return [self._reducer.result(one, STUCK_SECONDS) for one in requests][-1]

    def _take(self, answer: Reduced) -> None:
        """Take over the reducer's progress and weights at the end of a batch or validation."""
        self._progress, (self.weights,) = answer.progress, answer.arrays
        self._batch_tokens = 0
        if answer.points:
            self._losses.extend(answer.points)
            self._loss = answer.points[-1][3]

    def _is_missing(self, part: RowRange) -> bool:
        return part.first >= self.rows and part.first not in self._arrived

    def _open_batch(self) -> None:
        """Cut the current batch, or what is left of it, into parts; so too a validation."""
        cursor = self._cursor
        if self.is_done:
            return
        if cursor.is_validating:
            size = cursor.num_validation_rows
            start = self.rows + cursor.validation_remaining - size
        else:
            start, size = cursor.batch_start + cursor.num_validated, cursor.batch_size
        parts = cut_batch(start, size, self._micro_batch)
        left = [part for part in parts if part.first >= self.rows]
        if left[0].first != self.rows:
            raise CheckpointError(f"row {self.rows} is within a micro-batch of {self._micro_batch}")
        self._waiting = left[::-1]
