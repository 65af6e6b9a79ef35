"""Gradients added in a fixed order, and the steps of the optimizer: who reduces has no rows.

Neither rows nor a base are needed for it: gradients, losses and counts reach it alone.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from auctune.domain.errors import CheckpointError
from auctune.train.adapter_files import KEPT_EPOCHS
from auctune.train.checkpoint import Checkpoint
from auctune.train.data_parallel.batches import NO_GRADIENT, Contribution, Floats
from auctune.train.job import CurvePoint, JobState, LoraJob, ReducerProgress
from auctune.train.multilora.optimizer import AdapterOptimizer
from auctune.train.multilora.weights import FlatAdapter
from auctune.train.reproducible import deterministic
from auctune.train.row_cursor import DataCounts
from auctune.train.task_state import (
    TaskState,
    capture_state,
    restore_state,
    take_steps,
)

_MODE = "exact"


class Reducer(ABC):
    """Weights and optimizer of a job.

    Args:
        base_digest: of the base that is adapted.
        threads: of torch, in steps.
    """

    def __init__(self, weights: FlatAdapter, base_digest: str, threads: int) -> None:
        self._weights, self._base_digest, self._threads = weights, base_digest, threads

    @property
    def weights(self) -> Floats:
        """The weights as they are now, float32 [num_parameters], copied."""
        copied: Floats = self._weights.values.numpy().copy()
        return copied

    def add(self, one: Contribution, num_rows: int) -> None:
        """Add the next micro-batch, of so many rows, to the current batch."""
        self._weights.gradients.add_(_tensor(one.gradient))
        self._count(one, num_rows)

    @abstractmethod
    def _count(self, one: Contribution, num_rows: int) -> None:
        """Count a micro-batch that was added."""

    def step(self) -> CurvePoint | None:
        """Take a step with the current batch, unless it would not be finite.

        Returns:
            Its point of the curve; `None`, or one whose loss is NaN, if no step was taken and the
            job has failed.
        """
        with deterministic(self._threads):
            return self._step()

    @abstractmethod
    def _step(self) -> CurvePoint | None: ...

    @property
    def curve(self) -> Sequence[CurvePoint]:
        """Points of all steps that are known here."""
        return ()

    @abstractmethod
    def progress(self) -> ReducerProgress:
        """Return the progress of the training."""

    @abstractmethod
    def capture(self) -> Checkpoint:
        """Return all that training goes on from."""

    @abstractmethod
    def restore(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        """Go on from a checkpoint; return warnings.

        Raises:
            CheckpointError: if it is of something else.
        """


class FileReducer(Reducer):
    """Reducer of a job whose rows are in a file, in the order of its epochs.

    Attributes:
        task: its state.
    """

    def __init__(
        self,
        job: LoraJob,
        counts: DataCounts,
        weights: FlatAdapter,
        base_digest: str,
        threads: int = 1,
    ) -> None:
        super().__init__(weights, base_digest, threads)
        self.task = TaskState(job, counts, weights, KEPT_EPOCHS)
        self._num_targets = 0

    @property
    def curve(self) -> Sequence[CurvePoint]:
        return self.task.curve

    def _count(self, one: Contribution, num_rows: int) -> None:
        self.task.batch_sums.add_(torch.tensor([one.loss, one.hits]))
        self.task.count_trained(num_rows, one.num_tokens)
        self._num_targets = one.num_targets

    def _step(self) -> CurvePoint | None:
        take_steps([self.task], [self._num_targets])
        return None if self.task.state == "failed" else self.task.curve[-1]

    def count_validated(self, one: Contribution, num_rows: int) -> None:
        """Count rows of the validation data; the last of them end an epoch."""
        self.task.count_validated(num_rows, one.loss, one.hits)

    def progress(self) -> ReducerProgress:
        task = self.task
        tokens = task.tokens + task.batch_tokens
        return ReducerProgress(
            task.state, task.note, task.steps, task.done_rows, tokens, tuple(task.validation)
        )

    def capture(self) -> Checkpoint:
        return capture_state(self.task, self._base_digest, _MODE)

    def restore(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        return restore_state(self.task, checkpoint, self._base_digest, _MODE)


class PlanReducer(Reducer):
    """Reducer of a job whose rows are chunks at sites, in the order of its plan's slots.

    The learning rate of a step follows from the rows trained before it, as the number of steps of
    a job depends on its plan: with n of N rows trained and batches of B rows, it is the rate of
    step n // B of ceil(N / B).

    Args:
        total_rows: of the whole job, over all epochs.
    """

    def __init__(
        self, job: LoraJob, total_rows: int, weights: FlatAdapter, base_digest: str
    ) -> None:
        super().__init__(weights, base_digest, threads=1)
        num_steps = max(1, math.ceil(total_rows / job.batch_size))
        self._optimizer = AdapterOptimizer(job, weights.values, weights.gradients, num_steps)
        self._job = job
        self._steps = self._rows = self._tokens = 0
        self._has_diverged = False
        # Of the current batch.
        self._added: list[tuple[Contribution, int]] = []

    def _count(self, one: Contribution, num_rows: int) -> None:
        self._added.append((replace(one, gradient=NO_GRADIENT), num_rows))

    def _step(self) -> CurvePoint:
        added, self._added = self._added, []
        num_targets = sum(one.num_targets for one, _ in added)
        loss = float(np.sum([one.loss for one, _ in added])) / max(1, num_targets)
        accuracy = sum(one.hits for one, _ in added) / max(1, num_targets)
        self._weights.gradients.div_(max(1, num_targets))
        norm = float(self._optimizer.clip())
        if math.isfinite(loss) and math.isfinite(norm):
            self._optimizer.step(self._rows // self._job.batch_size)
            self._steps += 1
            self._rows += sum(num_rows for _, num_rows in added)
            # Targets of preferences are rows.
            has_tokens = self._job.method == "supervised"
            self._tokens += num_targets if has_tokens else sum(one.num_tokens for one, _ in added)
        else:
            self._weights.gradients.zero_()
            self._has_diverged, loss = True, math.nan
        return self._steps, self._rows, self._tokens, loss, accuracy

    def progress(self) -> ReducerProgress:
        state: JobState = "failed" if self._has_diverged else "training"
        return ReducerProgress(state, "", self._steps, self._rows, self._tokens)

    def capture(self) -> Checkpoint:
        moments = self._optimizer.moments
        tensors = {
            "adapter": self._weights.values,
            "exp_avg": moments["exp_avg"],
            "exp_avg_sq": moments["exp_avg_sq"],
        }
        state = {
            "base_digest": self._base_digest,
            "steps": self._steps,
            "rows": self._rows,
            "tokens": self._tokens,
        }
        return Checkpoint(tensors, state)

    @torch.no_grad()
    def restore(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        moments, tensors, state = self._optimizer.moments, checkpoint.tensors, checkpoint.state
        try:
            # Those of format 7 call the adapter so.
            adapter = tensors["weights"] if "weights" in tensors else tensors["adapter"]
            self._weights.values.copy_(adapter)
            moments["exp_avg"].copy_(tensors["exp_avg"])
            moments["exp_avg_sq"].copy_(tensors["exp_avg_sq"])
            self._steps, self._rows, self._tokens = (
                state[name] for name in ("steps", "rows", "tokens")
            )
        except KeyError as error:
            raise CheckpointError(f"the checkpoint has no {error}") from None
        moments["step"].fill_(self._steps)
        return ()


def _tensor(values: Floats) -> torch.Tensor:
    # What comes out of an object store may not be written to, of which torch warns.
    return torch.tensor(values)
