"""Preemptible training jobs: they take turns on a device, and a pause changes no bit of them.

A job trains as many batches as requested, and between two turns it may leave the device.
Parameters, buffers, the optimizer's state, random numbers and the position in the data are the same
after a pause as before it.

A LoRA job trains an adapter by the multi-LoRA trainer. A batch is an optimizer batch, its loss the
mean over the batch's target tokens. The base is held once for all jobs of a pool and never leaves
the device; an offloaded job takes along its adapter, gradient and moments, and the weights that it
started from if its rows are pairs. Training is in the trainer's exact mode, so that an adapter does
not depend on how its turns fell.
"""

import math
import time
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from auctune.domain.errors import AuctuneError, CheckpointError, InputError
from auctune.train.adapter_files import EPOCHS, KEPT_EPOCHS
from auctune.train.base import Base
from auctune.train.checkpoint import Checkpoint
from auctune.train.job import LoraJob
from auctune.train.multilora.task import TrainingTask
from auctune.train.task_state import capture_state, restore_state
from auctune.train.time_budget import NO_TIME_LIMIT, TimeBudget
from auctune.train.trainer import MultiLoraTrainer

MANY_EPOCHS = 1_000_000
"""Epochs of a LoRA job: it ends at a loss or a deadline instead."""

# Rows between two checks of the clock, where the time of a batch is limited, and tokens of a pass:
# on a CPU a pass is a row, while a GPU would be idle most of the time.
_ROWS_PER_CHECK = {"cpu": 4, "cuda": 32}
_PASS_TOKENS = {"cpu": 0, "cuda": 4096}


class StepTooLongError(AuctuneError):
    """A batch was stopped: it took longer than a job may hold the device without a pause."""


class PreemptibleJob(Protocol):
    """Training job that can be paused after any batch.

    It may have attributes of its data: `notes`, sentences for its owner, such as on truncated rows;
    `learned`, the rows and tokens of the batches trained so far; `accuracy`, the mean accuracy of
    the batches of the last call of `step`, as of a point of `LoraJob`'s curve.
    """

    @property
    def batches(self) -> int:
        """Batches trained so far."""
        ...

    @property
    def resting_bytes(self) -> int:
        """Bytes on the device between turns; 0 while it is offloaded."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Bytes on the device while it trains; exact once a batch has been trained."""
        ...

    def step(self, batches: int) -> float:
        """Train a number of batches, >= 1; return the mean of their losses, which may be NaN.

        Raises:
            StepTooLongError: if the job limits the time of a batch, and one took longer.
        """
        ...

    def suspend(self) -> None:
        """Offload to the host."""
        ...

    def resume(self) -> None:
        """Return to the device; no effect if it is there."""
        ...

    def state(self) -> Checkpoint:
        """Return all that `restore` needs to continue bit-identically."""
        ...

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go to the point at which `state` was called.

        Raises:
            CheckpointError: if the checkpoint is of another task, or a part is missing.
        """
        ...

    def save_result(self, folder: Path) -> None:
        """Write the trained model into an empty folder."""
        ...


class HostOffload:
    """Host copies of a job's device memory while it does not train.

    Tensors keep their identity but hold no memory: the bytes of every storage are copied to the
    host, the storage is emptied, and filled again on `reload`. So optimizers, tied weights and
    whatever else refers to a parameter need no change.
    """

    def __init__(self) -> None:
        self._copies: list[tuple[torch.UntypedStorage, torch.UntypedStorage]] | None = None

    @property
    def is_offloaded(self) -> bool:
        """Return whether the tensors are on the host."""
        return self._copies is not None

    def offload(self, tensors: Iterable[Tensor]) -> None:
        """Copy tensors to the host and empty them; no effect if they are there."""
        if self._copies is None:
            self._copies = [(storage, _host_copy(storage)) for storage in storages(tensors)]
            for storage, _ in self._copies:
                storage.resize_(0)

    def reload(self) -> None:
        """Copy the tensors back to the device; no effect if they are there."""
        for storage, copy in self._copies or []:
            storage.resize_(copy.nbytes())
            storage.copy_(copy)
        self._copies = None


def storages(tensors: Iterable[Tensor]) -> list[torch.UntypedStorage]:
    """Return the storages of tensors, a shared one once."""
    by_pointer = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.nbytes():
            by_pointer[storage.data_ptr()] = storage
    return list(by_pointer.values())


def _host_copy(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    copy = torch.UntypedStorage(storage.nbytes())  # type: ignore[no-untyped-call]
    copy.copy_(storage)
    return copy


class LoraJobFactory:
    """Makes LoRA jobs that share a base.

    Args:
        base: in memory already.
        max_step_seconds: after which a batch is stopped; `None`: not limited.
        gradient_checkpointing: as of `MultiLoraTrainer`'s `checkpointing`.
    """

    def __init__(
        self,
        base: Base,
        max_step_seconds: float | None = None,
        gradient_checkpointing: int = 0,
    ) -> None:
        self._trainer = MultiLoraTrainer(
            base,
            mode="exact",
            exact_budget=_PASS_TOKENS[base.device.type],
            checkpointing=gradient_checkpointing,
            kept_epochs=KEPT_EPOCHS,
        )
        self._max_step_seconds = max_step_seconds

    def make(self, job: LoraJob, folder: Path) -> "PreemptibleLoraJob":
        """Load a job; its number of epochs has no effect.

        Args:
            job: with a constant schedule, as the number of steps is unknown.
            folder: in which the trainer finds no checkpoints of its own.

        Raises:
            InputError: if the job, its data or its target modules cannot be used.
        """
        if job.schedule != "constant":
            found = f"{job.schedule!r}, but how many steps there will be is not known"
            raise InputError("schedule", found, "'constant'")
        endless = replace(job, epochs=MANY_EPOCHS)
        loaded = self._trainer.load(endless, folder)
        return PreemptibleLoraJob(self._trainer, endless.id, self._max_step_seconds, loaded.notes)

    def release(self, job: str) -> None:
        """Unload a job that is on the device; what was not saved is lost."""
        self._trainer.unload(job)


class PreemptibleLoraJob:
    """Adapter in training; a `PreemptibleJob`.

    Args:
        trainer: on which the job is loaded.
        job: its id.
        max_step_seconds: after which a batch is stopped; `None`: not limited.
        notes: on its data.
    """

    def __init__(
        self,
        trainer: MultiLoraTrainer,
        job: str,
        max_step_seconds: float | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.notes = notes
        self._trainer, self._job, self._max_step_seconds = trainer, job, max_step_seconds
        self._offload = HostOffload()
        self._accuracy = math.nan
        # Batches requested after training had failed.
        self._failed_batches = 0

    @property
    def batches(self) -> int:
        return self._task.steps + self._failed_batches

    @property
    def resting_bytes(self) -> int:
        if self._offload.is_offloaded:
            return 0
        start = self._task.rows.factory.start
        return self._task.optimizer.num_bytes + (0 if start is None else start.nbytes)

    @property
    def memory_bytes(self) -> int:
        # Activations are those of one pass, and the base is the pool's.
        return self.resting_bytes

    @property
    def learned(self) -> tuple[int, int]:
        """Rows and tokens of the batches trained so far."""
        if not self._task.curve:
            return 0, 0
        _, rows, tokens, *_ = self._task.curve[-1]
        return rows, tokens

    @property
    def accuracy(self) -> float:
        """Mean accuracy of the batches of the last call of `step`; NaN if training failed."""
        return self._accuracy

    def step(self, batches: int) -> float:
        assert not self._offload.is_offloaded, "an offloaded job cannot train"
        first = self._task.steps
        for _ in range(batches):
            target = self._task.sampler.done + self._task.batch_remaining
            self._trainer.train({self._job: target}, lambda _: None, self._time_budget())
            if self._task.state == "training" and self._task.sampler.done < target:
                raise StepTooLongError(
                    f"a batch of {self._task.batch_size} rows was stopped after"
                    f" {self._max_step_seconds:g} s"
                )
        points = self._task.curve[first:]
        self._failed_batches += batches - len(points)
        if len(points) < batches:
            self._accuracy = math.nan
            return math.nan
        *_, losses, accuracies = zip(*points, strict=True)
        self._accuracy = math.fsum(accuracies) / batches
        return math.fsum(losses) / batches

    def suspend(self) -> None:
        moments = self._task.optimizer.moments
        weights, start = self._task.weights, self._task.rows.factory.start
        tensors = [weights.values, weights.gradients, moments["exp_avg"], moments["exp_avg_sq"]]
        self._offload.offload(tensors if start is None else [*tensors, start])

    def resume(self) -> None:
        self._offload.reload()

    def state(self) -> Checkpoint:
        assert not self._offload.is_offloaded, "the tensors of an offloaded job are empty"
        checkpoint = capture_state(self._task, self._trainer.base.digest, self._trainer.mode)
        tensors = {name: tensor.cpu().clone() for name, tensor in checkpoint.tensors.items()}
        # The trainer's state is live, its curve above all.
        return Checkpoint(
            tensors, {**deepcopy(checkpoint.state), "failed_batches": self._failed_batches}
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        self._offload.reload()
        if "failed_batches" not in checkpoint.state:
            raise CheckpointError("the checkpoint has no 'failed_batches'")
        restore_state(self._task, checkpoint, self._trainer.base.digest, self._trainer.mode)
        self._failed_batches = checkpoint.state["failed_batches"]

    def save_result(self, folder: Path) -> None:
        """Write the adapter in PEFT's format to `folder`/adapter, verified by loading it.

        Beside it are those of the last epochs, each in `folder`/epochs/N.
        """
        self._trainer.export(self._job, folder / "adapter")
        self._trainer.write_epochs(self._job, folder / EPOCHS)

    def _time_budget(self) -> TimeBudget:
        if self._max_step_seconds is None:
            return NO_TIME_LIMIT
        return _StepLimit(self._max_step_seconds, _ROWS_PER_CHECK[self._trainer.base.device.type])

    @property
    def _task(self) -> TrainingTask:
        return self._trainer.task(self._job)


class _StepLimit:
    """Time budget of a batch; its first few rows are always trained."""

    def __init__(self, seconds: float, rows: int) -> None:
        self._end = time.monotonic() + seconds
        self._rows = rows
        self._has_begun = False

    def max_rows(self) -> int:
        if self._has_begun and time.monotonic() >= self._end:
            return 0
        self._has_begun = True
        return self._rows

    def record(self, rows: float) -> None:
        """Only the clock counts."""
