"""What the pool asks of a training task that it gives turns to.

A thread trains as many batches as it is told, and between two turns it may leave the device. A
pause changes nothing: parameters, buffers, the optimizer's state, random numbers and the place in
the data are after it what they were before, to the bit.
"""

from pathlib import Path
from typing import Protocol

from auctune.domain.errors import AuctuneError
from auctune.train.checkpoint import Checkpoint


class StepTooLongError(AuctuneError):
    """A batch was stopped: it took longer than a thread may hold the device without a pause."""


class TrainingThread(Protocol):
    """A training task that can be paused after any batch.

    It may have an attribute `notes`: sentences that its owner should read, such as of truncated
    rows.
    """

    @property
    def batches(self) -> int:
        """Batches trained so far."""
        ...

    @property
    def resting_bytes(self) -> int:
        """What it holds on the device between turns, if it does not leave it; not suspended."""
        ...

    @property
    def memory_bytes(self) -> int:
        """What it takes on the device while it trains; exact once a batch has been trained."""
        ...

    def step(self, batches: int) -> float:
        """Train that many batches, >= 1; returns the mean of their losses, as it is (NaN too).

        Raises:
            StepTooLongError: if the thread limits the time of a batch, and one took longer.
        """
        ...

    def suspend(self) -> None:
        """Leave the device's memory; everything is kept on the host."""
        ...

    def resume(self) -> None:
        """Come back to the device; nothing if it is there."""
        ...

    def state(self) -> Checkpoint:
        """Everything that `restore` needs to go on as if nothing had happened."""
        ...

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go to where `state` was taken.

        Raises:
            CheckpointError: if it is of another task, or a part is missing.
        """
        ...

    def save_result(self, folder: Path) -> None:
        """Write what it has learned, for people to use, into an empty folder."""
        ...
