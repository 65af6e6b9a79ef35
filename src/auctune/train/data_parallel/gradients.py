"""The gradient of a micro-batch of rows at given weights: what a worker computes.

A worker keeps nothing from one micro-batch to the next but the weights that it was last given, so
nothing is lost with it but what it is at.
"""

from collections.abc import Sequence

import torch

from auctune.domain.errors import InputError
from auctune.train.base import Base
from auctune.train.data_parallel.batches import Contribution, Floats, RowRange
from auctune.train.job import LoraJob
from auctune.train.multilora.adapters import AdaptedModel, lora_config
from auctune.train.multilora.backends import choose_backend
from auctune.train.multilora.batching import BatchRow, MicroBatch
from auctune.train.multilora.step import ForwardBackward
from auctune.train.multilora.task import TrainingTask
from auctune.train.multilora.train_loop import run_or_out_of_memory
from auctune.train.reproducible import deterministic, prepare_deterministic
from auctune.train.tokenized_file import read_rows

NAME = "job0"


class AdapterGradients:
    """One adapter on a base model, and its gradients in exact mode.

    Args:
        base: the model that is adapted; its weights are shared, not copied.
        job: settings of the adapter.
        threads: of torch on a CPU; the same for all workers, as sums depend on them.

    Attributes:
        adapted, step, weights: the model, its passes, and the adapter's parameters.
        max_length: tokens of a row at most.

    Raises:
        InputError: if the base has no such modules.
    """

    def __init__(self, base: Base, job: LoraJob, *, threads: int = 1) -> None:
        prepare_deterministic()
        self.adapted = AdaptedModel(
            base.fresh_model(), choose_backend("auto", base.device, base.dtype)
        )
        self.step = ForwardBackward(self.adapted)
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
        with deterministic(self._threads):
            sums = run_or_out_of_memory(
                self.step.train, MicroBatch(tuple(rows), max(map(len, rows)))
            )
        if sums is None:
            raise MemoryError(f"{len(rows)} rows do not fit into memory")
        gradient: Floats = self.weights.gradients.to("cpu", copy=True).numpy()
        loss, hits = sums[NAME].tolist()
        return gradient, loss, int(hits)

    def evaluate(self, rows: Sequence[BatchRow], num_targets: int) -> tuple[float, float]:
        """Return the mean loss and accuracy of rows over their trained tokens, row by row.

        Raises:
            MemoryError: if a row does not fit into memory.
        """
        total, num_hits = 0.0, 0.0
        with deterministic(self._threads):
            for row in rows:
                sums = run_or_out_of_memory(self.step.evaluate, MicroBatch((row,), len(row)))
                if sums is None:
                    raise MemoryError(f"a row of {len(row)} tokens does not fit into memory")
                loss, hits = sums[NAME].tolist()
                total += loss
                num_hits += hits
        return total / num_targets, num_hits / num_targets


class GradientWorker:
    """Computes micro-batches of one job, whose rows are in one file.

    Args:
        base: the model that is adapted.
        job: whose rows and adapter; `batch_size` is the global batch.
        threads: of torch on a CPU.

    Raises:
        InputError: if the job or its data cannot be used.
    """

    def __init__(self, base: Base, job: LoraJob, *, threads: int = 1) -> None:
        self._adapter = AdapterGradients(base, job, threads=threads)
        data = read_rows(job.data, base.tokenizer, self._adapter.max_length, base.context_tokens)
        self._task = TrainingTask(job, self._adapter.weights, data)

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

        It is weighted by the trained tokens of the whole batch.

        Raises:
            InputError: if it does not fit into memory.
        """
        self._task.sampler.done = part.first
        try:
            return Contribution(*self._adapter.compute(self._task.next_rows(part.num_rows)))
        except MemoryError as error:
            raise InputError("micro_batch", str(error), "fewer rows") from None
