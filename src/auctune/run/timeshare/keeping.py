"""Checkpoints of the threads of a run.

Each thread has its own, numbered by its batches. They need not be of one moment: the journal knows
how many batches of each are due, and a thread that is behind trains them again, to the same bits.
"""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from auctune.domain.errors import CheckpointError
from auctune.train.checkpoint import load_latest, save_checkpoint
from auctune.train.preemptible import PreemptibleJob


class Keeping:
    """Writes checkpoints, none of them oftener than needed.

    Args:
        threads: of the run.
        folders: of the checkpoints of each.
        every: seconds between two of one thread.
        now: seconds by a clock that only goes forward.
    """

    def __init__(
        self,
        threads: Sequence[PreemptibleJob],
        folders: Sequence[Path],
        every: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threads, self._folders, self._every, self._now = threads, folders, every, now
        self._saved = [thread.batches for thread in threads]
        self._when = [now()] * len(threads)

    def save_if_due(self, thread: int) -> None:
        """Write a thread's checkpoint if it has learned and the last one is old."""
        if self._now() - self._when[thread] >= self._every:
            self.save(thread)

    def save(self, thread: int) -> None:
        """Write a thread's checkpoint if it has learned since the last one; not suspended."""
        batches = self._threads[thread].batches
        if batches != self._saved[thread]:
            save_checkpoint(self._folders[thread], batches, self._threads[thread].state())
            self._saved[thread] = batches
        self._when[thread] = self._now()


class KeepingEach:
    """Keeps threads that are kept apart from each other, by their places.

    Args:
        keepings: each of one thread.
    """

    def __init__(self, keepings: Sequence[Keeping]) -> None:
        self._keepings = keepings

    def save_if_due(self, thread: int) -> None:
        """See `Keeping`."""
        self._keepings[thread].save_if_due(0)

    def save(self, thread: int) -> None:
        """See `Keeping`."""
        self._keepings[thread].save(0)


def bring_back(thread: PreemptibleJob, folder: Path, units: Sequence[tuple[int, float]]) -> str:
    """Bring a new thread to where the journal says that it was.

    Args:
        thread: new.
        folder: of its checkpoints.
        units: batches and mean loss of each unit in which it learned.

    Returns:
        What an operator should know; mostly nothing.

    Raises:
        CheckpointError: if checkpoints are damaged, of something else, or ahead of the journal.
    """
    found = load_latest(folder)
    notes: list[str] = []
    if found is not None:
        checkpoint, _, damaged = found
        thread.restore(checkpoint)
        notes += damaged
    differs = False
    behind = thread.batches
    for batches, loss in units:
        done = min(behind, batches)
        behind -= done
        if done < batches:
            again = thread.step(batches - done)
            # A unit may have been trained in several turns, whose means were put together.
            differs |= done == 0 and not (math.isclose(again, loss) or math.isnan(again))
    if behind:
        raise CheckpointError(f"{folder}: is {behind} batches ahead of the journal")
    if differs:
        notes.append("batches that were trained again gave other losses than before")
    return "; ".join(notes)
