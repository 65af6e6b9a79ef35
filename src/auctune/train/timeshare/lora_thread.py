"""An adapter of the multi-LoRA trainer as a thread of the pool: trained until its loss is reached.

A batch is an optimizer batch of the job, its loss the mean over the batch's trained tokens. The
base model is held once for all adapters of a pool and never leaves the device; what a suspended
thread takes along is its adapter, gradient and moments. Training is in the trainer's exact mode,
so that an adapter does not depend on how its turns fell.
"""

import math
import time
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from auctune.domain.errors import CheckpointError, InputError
from auctune.train.base import Base
from auctune.train.checkpoint import Checkpoint
from auctune.train.job import LoraJob
from auctune.train.multilora.suspend import capture, restore
from auctune.train.multilora.task import TrainingTask
from auctune.train.node import UNLIMITED, NodeTrainer
from auctune.train.pace import TimeLeft
from auctune.train.progress import Progress
from auctune.train.timeshare.shelf import Shelf
from auctune.train.timeshare.thread import StepTooLongError

MANY_EPOCHS = 1_000_000
"""Passes over the data: training ends with a loss or a deadline, not with them."""

# Rows between two looks at the clock, where the time of a batch is limited.
_ROWS_A_LOOK = 4


class LoraPool:
    """The base that the adapters of a pool share.

    Args:
        base: in memory already.
        max_step_seconds: after which a batch is stopped; `None`: never.
    """

    def __init__(self, base: Base, max_step_seconds: float | None = None) -> None:
        self._node = NodeTrainer(base, mode="exact")
        self._max_step_seconds = max_step_seconds

    def thread(self, job: LoraJob, folder: Path) -> "LoraThread":
        """A job as a thread; its number of epochs does not count.

        Args:
            job: its schedule must be constant, as nobody knows how long it will train.
            folder: in which the trainer finds no checkpoints of its own.

        Raises:
            InputError: if the job, its data or its target modules cannot be used.
        """
        if job.schedule != "constant":
            found = f"{job.schedule!r}, but how many steps there will be is not known"
            raise InputError("schedule", found, "'constant'")
        endless = replace(job, epochs=MANY_EPOCHS)
        loaded = self._node.load(endless, folder)
        return LoraThread(self._node, endless.id, self._max_step_seconds, loaded.notes)

    def let_go(self, job: str) -> None:
        """Drop a job's thread, which is on the device; what was not saved is lost."""
        self._node.unload(job)


class LoraThread:
    """See `auctune.train.timeshare.thread.TrainingThread`.

    Args:
        node: on which the job is loaded.
        job: its id.
        max_step_seconds: after which a batch is stopped; `None`: never.
        notes: on its data.
    """

    def __init__(
        self,
        node: NodeTrainer,
        job: str,
        max_step_seconds: float | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.notes = notes
        self._node, self._job, self._max_step_seconds = node, job, max_step_seconds
        self._shelf = Shelf()
        # Batches that were asked for after training had failed: they teach nothing.
        self._vain = 0

    @property
    def batches(self) -> int:
        """Batches trained so far."""
        return self._task.steps + self._vain

    @property
    def resting_bytes(self) -> int:
        """Adapter, gradient and moments."""
        return 0 if self._shelf.is_full else self._task.optimizer.num_bytes

    @property
    def memory_bytes(self) -> int:
        """As `resting_bytes`: activations are those of one row, and the base is the pool's."""
        return self.resting_bytes

    @property
    def learned(self) -> tuple[int, int]:
        """Rows and tokens of the batches trained so far."""
        if not self._task.curve:
            return 0, 0
        _, rows, tokens, _ = self._task.curve[-1]
        return rows, tokens

    def step(self, batches: int) -> float:
        """Train that many batches, >= 1; returns the mean of their losses; NaN once it failed."""
        assert not self._shelf.is_full, "a suspended thread trains nothing"
        first = self._task.steps
        for _ in range(batches):
            target = self._task.cursor.done + self._task.batch_left
            self._node.train({self._job: target}, _ignore, self._time_left())
            if self._task.state == "training" and self._task.cursor.done < target:
                raise StepTooLongError(
                    f"a batch of {self._task.batch_size} rows was stopped after"
                    f" {self._max_step_seconds:g} s"
                )
        losses = [loss for _, _, _, loss in self._task.curve[first:]]
        self._vain += batches - len(losses)
        return math.fsum(losses) / batches if len(losses) == batches else math.nan

    def suspend(self) -> None:
        """Leave the device's memory; everything is kept on the host."""
        self._shelf.put(self._tensors())

    def resume(self) -> None:
        """Come back to the device; nothing if it is there."""
        self._shelf.take()

    def state(self) -> Checkpoint:
        """As the trainer's own checkpoints, and the batches asked for in vain."""
        assert not self._shelf.is_full, "a suspended thread's tensors are empty"
        checkpoint = capture(self._task, self._node.base.digest, self._node.mode)
        tensors = {name: tensor.cpu().clone() for name, tensor in checkpoint.tensors.items()}
        # What the trainer gives is live, its curve above all.
        return Checkpoint(tensors, {**deepcopy(checkpoint.state), "vain": self._vain})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go to where `state` was taken; CheckpointError if it is of something else."""
        self._shelf.take()
        if "vain" not in checkpoint.state:
            raise CheckpointError("the checkpoint has no 'vain'")
        restore(self._task, checkpoint, self._node.base.digest, self._node.mode)
        self._vain = checkpoint.state["vain"]

    def save_result(self, folder: Path) -> None:
        """Write the adapter in PEFT's format to `folder`/adapter, loaded back and checked."""
        self._node.export(self._job, folder / "adapter")

    def _time_left(self) -> TimeLeft:
        return UNLIMITED if self._max_step_seconds is None else _Limit(self._max_step_seconds)

    @property
    def _task(self) -> TrainingTask:
        return self._node.task(self._job)

    def _tensors(self) -> list[Tensor]:
        moments = self._task.optimizer.moments
        weights = self._task.weights
        return [weights.values, weights.gradients, moments["exp_avg"], moments["exp_avg_sq"]]


class _Limit:
    """Ends training once a number of seconds has passed; a few rows are always trained."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._has_begun = False

    def most_rows(self) -> int:
        """See `TimeLeft`."""
        if self._has_begun and time.monotonic() >= self._end:
            return 0
        self._has_begun = True
        return _ROWS_A_LOOK

    def trained(self, rows: int) -> None:
        """See `TimeLeft`; the clock alone counts."""


def _ignore(progress: Progress) -> None:
    """A report that nobody reads."""
