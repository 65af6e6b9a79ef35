"""State of an elastic job: hands out micro-batches, and adds their gradients in a fixed order.

It does not know the workers. Its caller has micro-batches computed anywhere and delivers their
gradients in any order; a micro-batch whose worker exited is requeued.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from auctune.domain.errors import CheckpointError, InputError
from auctune.train.base import Base
from auctune.train.data_parallel.batches import Contribution, RowRange, cut_batch
from auctune.train.export import Exported
from auctune.train.job import Loaded, LoraJob, Progress
from auctune.train.reproducible import deterministic
from auctune.train.trainer import KEPT_EPOCHS, MultiLoraTrainer


class ElasticTrainer:
    """State and optimizer of one job; see `auctune.train.data_parallel`.

    Args:
        base: the model that is adapted.
        job: to train; `batch_size` is the global batch.
        folder: of its checkpoints and epochs; it goes on from the newest whole checkpoint.
        micro_batch: rows that go through the model together on a worker.
        threads: of torch on a CPU, for optimizer steps.

    Attributes:
        loaded: the job as it was taken up.

    Raises:
        InputError: if the job, its data or the micro-batch cannot be used.
        CheckpointError: if its checkpoints are damaged, or of something else.
    """

    def __init__(
        self, base: Base, job: LoraJob, folder: Path, *, micro_batch: int, threads: int = 1
    ) -> None:
        if not 1 <= micro_batch <= job.batch_size:
            raise InputError(
                "micro_batch", f"{micro_batch!r}", f"1 to batch_size = {job.batch_size} rows"
            )
        self._node = MultiLoraTrainer(base, mode="exact", kept_epochs=KEPT_EPOCHS)
        self._job = job
        self._micro_batch = micro_batch
        self._threads = threads
        self.loaded: Loaded = self._node.load(job, folder)
        self._task = self._node.task(job.id)
        self._targets = 0
        self._waiting: list[RowRange] = []
        self._arrived: dict[int, Contribution] = {}
        self._open_batch()

    @property
    def is_done(self) -> bool:
        """Whether the training has ended."""
        return self._task.state != "training"

    @property
    def step(self) -> int:
        """Steps that the weights have taken; they are the same as long as it is."""
        return self._task.steps

    @property
    def rows(self) -> int:
        """Rows trained and validated so far, over all epochs, in their order."""
        return self._task.done_rows

    @property
    def total_rows(self) -> int:
        """Rows of all epochs, those of the validation data included."""
        return self._task.total_rows

    @property
    def done_cost(self) -> float:
        """Cost of the rows so far, in rows trained: to evaluate a row costs less."""
        return self._task.done_cost

    @property
    def total_cost(self) -> float:
        """Cost of all rows of all epochs."""
        return self._task.total_cost

    @property
    def data_digest(self) -> str:
        """Digest of the training tokens."""
        return self._task.data.digest

    @property
    def values(self) -> NDArray[np.float32]:
        """The adapter's weights, [num_parameters]; to be read before the next `advance`."""
        return self._task.weights.values.cpu().numpy()

    @property
    def weights(self) -> dict[str, Tensor]:
        """The live adapter weights, by their names in the base."""
        return self._node.weights(self._job.id)

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
        if self.is_done or self.rows not in self._arrived:
            return 0
        task = self._task
        contribution = self._arrived.pop(self.rows)
        if task.is_validating:
            num_rows = min(self._micro_batch, task.validation_remaining)
            task.count_validated(num_rows, contribution.loss, contribution.hits)
            if not task.validation_remaining:
                self._open_batch()
            return num_rows
        num_rows = min(self._micro_batch, task.batch_remaining)
        gradients = task.weights.gradients
        gradients.add_(torch.from_numpy(contribution.gradient).to(gradients.device))
        sums = [contribution.loss, contribution.hits]
        task.batch_sums.add_(torch.tensor(sums, device=gradients.device))
        if task.advance(num_rows):
            with deterministic(self._threads):
                self._node.loop.optimizer_step([task], [self._targets])
            self._open_batch()
        return num_rows

    def progress(self) -> Progress:
        """Where the job stands."""
        return self._node.progress(self._job.id)

    def save(self) -> Path:
        """Write a checkpoint, whose number is that of the rows trained.

        Adapters of the last epochs are written beside it.
        """
        return self._node.save(self._job.id, self.rows)

    def export(self, folder: Path) -> Exported:
        """Write the adapter in PEFT's format, loaded back and checked.

        Raises:
            ExportError: if what was written is not what was trained.
        """
        return self._node.export(self._job.id, folder)

    def _is_missing(self, part: RowRange) -> bool:
        return part.first >= self.rows and part.first not in self._arrived

    def _open_batch(self) -> None:
        """Cut the current batch, or what is left of it, into parts; so too a validation."""
        task = self._task
        if self.is_done:
            return
        if task.is_validating:
            size = task.num_validation_rows
            start = self.rows + task.validation_remaining - size
        else:
            self._targets = task.num_batch_targets
            start, size = task.batch_start + task.num_validated, task.batch_size
        parts = cut_batch(start, size, self._micro_batch)
        left = [part for part in parts if part.first >= self.rows]
        if left[0].first != self.rows:
            raise CheckpointError(f"row {self.rows} is within a micro-batch of {self._micro_batch}")
        self._waiting = left[::-1]
