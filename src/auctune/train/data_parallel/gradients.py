"""The gradient of a micro-batch of rows at given weights: what a worker computes.

A worker keeps nothing from one micro-batch to the next but the weights that it was last given, so
nothing is lost with it but what it is at.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from auctune.domain.errors import InputError
from auctune.train.base import Base
from auctune.train.data_parallel.batches import Contribution, Floats, RowRange
from auctune.train.job import LoraJob
from auctune.train.multilora.adapters import AdaptedModel, lora_config
from auctune.train.multilora.backends import choose_backend
from auctune.train.multilora.batching import BatchRow, MicroBatch, units_of
from auctune.train.multilora.step import ForwardBackward
from auctune.train.multilora.task import TrainingTask
from auctune.train.multilora.train_loop import compute_references, run_or_out_of_memory
from auctune.train.reproducible import deterministic, prepare_deterministic
from auctune.train.tokenized_file import read_rows

NAME = "job0"


class AdapterGradients:
    """One adapter on a base model, and its gradients in exact mode.

    Args:
        base: the model that is adapted; its weights are shared, not copied.
        job: settings of the adapter.
        threads: of torch on a CPU; the same for all workers, as sums depend on them.
        gradient_checkpointing: as of `ForwardBackward`'s `checkpointing`.

    Attributes:
        adapted, step, weights: the model, its passes, and the adapter's parameters.
        max_length: tokens of a row at most.

    Raises:
        InputError: if the base has no such modules.
    """

    def __init__(
        self, base: Base, job: LoraJob, *, threads: int = 1, gradient_checkpointing: bool = False
    ) -> None:
        prepare_deterministic()
        self.adapted = AdaptedModel(
            base.fresh_model(), choose_backend("auto", base.device, base.dtype)
        )
        self.step = ForwardBackward(self.adapted, checkpointing=gradient_checkpointing)
        self.weights = self.adapted.add(NAME, lora_config(job, self.adapted.model), job.seed)
        self.max_length = min(job.max_length, base.context_tokens or job.max_length)
        self._threads = threads

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the adapter."""
        return self.weights.values.numel()

    @torch.no_grad()
    def set_weights(self, values: Floats) -> None:
        """Take over weights, float32 [num_parameters]; they are copied."""
        # What comes out of an object store may not be written to, of which torch warns.
        self.weights.values.copy_(torch.tensor(values))

    def compute(self, rows: Sequence[BatchRow]) -> tuple[Floats, float, int]:
        """Return the gradient of a micro-batch, weighted as its rows are, its loss and its hits.

        The loss is the sum of those of its trained tokens, hits are those that were the likeliest.
        Rows are padded to the longest of the micro-batch, so its shape does not depend on who
        computes it.

        Raises:
            MemoryError: if it does not fit into memory.
        """
        self.weights.gradients.zero_()
        loss, hits = self._run(self.step.train, rows)
        gradient: Floats = self.weights.gradients.to("cpu", copy=True).numpy()
        return gradient, loss, hits

    def evaluate(self, rows: Sequence[BatchRow]) -> tuple[float, int]:
        """Return the loss and hits of a micro-batch, as of `compute`, without its gradient.

        Raises:
            MemoryError: if it does not fit into memory.
        """
        return self._run(self.step.evaluate, rows)

    def compute_references(self, task: TrainingTask, count: int) -> None:
        """Compute the references of a task's next `count` rows, in one micro-batch as they train.

        They are not kept: an epoch takes the same work, and comes to the same bits, for a worker
        that has seen its pairs and for one that has not.

        Raises:
            MemoryError: if they do not fit into memory.
        """
        task.references.clear()
        with deterministic(self._threads):
            failed = compute_references([(task, count)], self.step, _together)
        if failed is not None:
            raise _too_large(failed.rows)

    def _run(
        self, run: Callable[[MicroBatch], dict[str, Tensor]], rows: Sequence[BatchRow]
    ) -> tuple[float, int]:
        with deterministic(self._threads):
            (batch,) = _together(rows)
            sums = run_or_out_of_memory(run, batch)
        if sums is None:
            raise _too_large(rows)
        loss, hits = sums[NAME].tolist()
        return loss, int(hits)


def _together(rows: Sequence[BatchRow]) -> list[MicroBatch]:
    return [MicroBatch(tuple(rows), max(map(len, rows)))]


def _too_large(rows: Sequence[BatchRow]) -> MemoryError:
    count, what = len(units_of(rows)), "pair" if rows[0].beta else "row"
    does = f"{count} {what}s do" if count > 1 else f"a single {what} does"
    return MemoryError(f"{does} not fit into memory")


class GradientWorker:
    """Computes micro-batches of one job, whose rows are in one file.

    Args:
        base: the model that is adapted.
        job: whose rows and adapter; `batch_size` is the global batch.
        threads, gradient_checkpointing: as of `AdapterGradients`.

    Raises:
        InputError: if the job or its data cannot be used.
    """

    def __init__(
        self, base: Base, job: LoraJob, *, threads: int = 1, gradient_checkpointing: bool = False
    ) -> None:
        self._adapter = AdapterGradients(
            base, job, threads=threads, gradient_checkpointing=gradient_checkpointing
        )
        limits = self._adapter.max_length, base.context_tokens
        data = read_rows(job.data, base.tokenizer, *limits)
        validation = None
        if job.validation is not None:
            validation = read_rows(job.validation, base.tokenizer, *limits)
        self._task = TrainingTask(job, self._adapter.weights, data, validation)
        if self._task.has_pairs:
            # Their references are those of the adapter that the job starts from.
            self._task.load_start(base.digest)

    @property
    def data_digest(self) -> str:
        """Digest of the training tokens."""
        return self._task.data.digest

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the adapter."""
        return self._adapter.num_parameters

    def set_weights(self, values: Floats) -> None:
        """Take over weights, float32 [num_parameters]; they are copied."""
        self._adapter.set_weights(values)

    def compute(self, part: RowRange) -> Contribution:
        """Return the gradient of a micro-batch at the weights last taken over.

        It is weighted by the trained tokens of the whole batch. Rows of the validation data have
        none.

        Raises:
            InputError: if it does not fit into memory.
        """
        self._task.seek(part.first)
        try:
            self._adapter.compute_references(self._task, part.num_rows)
            rows = self._task.next_rows(part.num_rows)
            if self._task.is_validating:
                return Contribution(np.zeros(0, np.float32), *self._adapter.evaluate(rows))
            return Contribution(*self._adapter.compute(rows))
        except MemoryError as error:
            expected = "fewer rows" if part.num_rows > 1 else "shorter rows: a smaller max_length"
            raise InputError("micro_batch", str(error), expected) from None
