"""Jobs of a pool while it runs: errors of their code, device memory, checkpoints, results."""

import math
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from auctune.atomic_files import commit_folder, remove_folder, staging_folder
from auctune.domain import AuctuneError, InputError
from auctune.domain.errors import CheckpointError
from auctune.engine.pool.events import Member, PoolDirectory
from auctune.train.checkpoint import load_latest, save_checkpoint
from auctune.train.preemptible import PreemptibleJob

Jobs = Mapping[str, PreemptibleJob]
"""Jobs that are loaded, by id."""


class JobFactory(Protocol):
    """Makes the jobs of a pool."""

    def make(self, job: str, settings: Mapping[str, Any]) -> PreemptibleJob:
        """Return a new job, always the same for the same settings.

        Raises:
            InputError: if it cannot be trained.
        """
        ...

    def release(self, job: str) -> None:
        """Release what is held for a job that the pool does not need any more."""
        ...


class JobFailedError(AuctuneError):
    """The code of a job, which may be a user's own, raised an error.

    Attributes:
        job: its id.
    """

    def __init__(self, job: str, what: str) -> None:
        super().__init__(f"{job} failed {what}")
        self.job = job


@contextmanager
def job_errors(job: str, doing: str) -> Iterator[None]:
    """Context manager that runs code of a job, and names the job in its errors.

    Args:
        job: its id.
        doing: when the error occurs, for its message.

    Raises:
        JobFailedError: naming job, error and line, whatever its code raised.
        InputError: naming the job, if it refused its settings.
    """
    try:
        yield
    except InputError as error:
        raise error.within(job) from None
    except AuctuneError:
        raise
    except Exception as error:
        (*_, last) = traceback.extract_tb(error.__traceback__)
        # The message is for the job's owner, who is not to know paths.
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        what = f"{type(error).__name__}: {said} ({Path(last.filename).name}:{last.lineno})"
        raise JobFailedError(job, f"{doing}: {what}") from error


@dataclass
class SwapStats:
    """How often jobs left the device and came back, and how many seconds that took."""

    suspended: int = 0
    resumed: int = 0
    seconds: float = 0.0

    @property
    def mean_seconds(self) -> float:
        """Mean over a job that leaves and another that comes; 0 before the first."""
        return self.seconds / self.resumed if self.resumed else 0.0


class DeviceMemory:
    """Memory of the device that the jobs of a pool share.

    A job stays on the device after its time slice as long as there is room. Room for the next one
    is made by suspending first those that do not train in this quantum any more.

    Args:
        limit: bytes for all jobs together, or None if there is room for all.
        now: monotonic clock, in seconds.

    Attributes:
        swaps: cost of swapping so far.
        max_bytes: that were ever in use, by the jobs' own count.
    """

    def __init__(self, limit: int | None, now: Callable[[], float] = time.perf_counter) -> None:
        self._limit, self._now = limit, now
        self._jobs: dict[str, PreemptibleJob] = {}
        self._needs: dict[str, int] = {}
        self._resident: list[str] = []
        self.swaps = SwapStats()
        self.max_bytes = 0

    def check_fits(self, name: str, needs: int) -> None:
        """Refuse a job that does not fit even alone.

        Raises:
            InputError: naming the job.
        """
        if self._limit is not None and needs > self._limit:
            found = f"{self._limit} bytes, but {name!r} takes {needs} while it trains"
            raise InputError("memory", found, f"{needs} bytes at least")

    def add(self, name: str, job: PreemptibleJob, needs: int) -> None:
        """Add a new job, which is on the device; it is suspended if memory is limited.

        Raises:
            InputError: as of `check_fits`.
        """
        self.check_fits(name, needs)
        self._jobs[name], self._needs[name] = job, needs
        if self._limit is None:
            self._resident.append(name)
        else:
            job.suspend()

    def remove(self, name: str) -> None:
        """Remove a job, if it was added; it is not suspended then."""
        job = self._jobs.pop(name, None)
        if job is not None:
            # The tensors of a suspended one are empty, and cannot be taken apart.
            job.resume()
        if name in self._resident:
            self._resident.remove(name)

    def is_resident(self, name: str) -> bool:
        """Return whether a job is on the device."""
        return name in self._resident

    def swap_in(self, name: str, waiting: Collection[str] = ()) -> None:
        """Bring a job onto the device, and make room for it.

        Args:
            name: of the job.
            waiting: jobs that are still to train in this quantum, itself not among them.
        """
        begun = self._now()
        has_moved = self._make_room(name, waiting)
        if not self.is_resident(name):
            self._jobs[name].resume()
            self._resident.append(name)
            self.swaps.resumed += 1
            has_moved = True
        if has_moved:
            self.swaps.seconds += self._now() - begun
        self.max_bytes = max(self.max_bytes, self._in_use(name))

    def suspend(self, name: str) -> None:
        """Move a job off the device."""
        self._jobs[name].suspend()
        self._resident.remove(name)
        self.swaps.suspended += 1

    def swap_seconds(self, names: Collection[str]) -> float:
        """Return how long swapping is expected to take in a quantum in which these train."""
        return self.swaps.mean_seconds * sum(not self.is_resident(name) for name in names)

    def _make_room(self, name: str, waiting: Collection[str]) -> bool:
        has_moved = False
        while self._limit is not None and self._needed(name) > self._limit:
            others = [one for one in self._resident if one != name]
            if not others:
                break
            self.suspend(min(others, key=lambda one: one in waiting))
            has_moved = True
        return has_moved

    def _needed(self, name: str) -> int:
        """Return the bytes in use if a job, resident or not, trained now."""
        if self.is_resident(name):
            return self._in_use(name)
        return self._in_use(None) + self._needs[name]

    def _in_use(self, training: str | None) -> int:
        idle = sum(self._jobs[one].resting_bytes for one in self._resident if one != training)
        return idle + (0 if training is None else self._jobs[training].memory_bytes)


class JobCheckpoints:
    """Checkpoints of the jobs of a pool, numbered by their batches.

    Those of several jobs need not be of one moment: the log has how many batches of each are due,
    and a job that is behind trains them again, bit-identically. No checkpoint is ahead of the log,
    but for a best one, which is written just before its quantum and discarded if that is lost.

    Args:
        directory: of the pool.
        every: seconds between two checkpoints of a job.
        now: monotonic clock, in seconds.
    """

    def __init__(
        self, directory: PoolDirectory, every: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory, self._every, self._now = directory, every, now
        # Batches of each job's newest checkpoint, and when it was written.
        self._saved: dict[str, tuple[int, float]] = {}

    def add(self, name: str, job: PreemptibleJob) -> None:
        """Count time and batches of a job from now on."""
        self._saved[name] = (job.batches, self._now())

    def save_if_due(self, name: str, job: PreemptibleJob) -> None:
        """Write a resident job's checkpoint if it has trained and the last one is old."""
        if self._now() - self._saved[name][1] >= self._every:
            self.save(name, job)

    def save(self, name: str, job: PreemptibleJob) -> None:
        """Write a resident job's checkpoint if it has trained since the last one."""
        if job.batches != self._saved[name][0]:
            save_checkpoint(self._directory.checkpoints / name, job.batches, job.state())
        self._saved[name] = (job.batches, self._now())

    def restore(self, name: str, job: PreemptibleJob, quanta: Sequence[tuple[int, float]]) -> str:
        """Bring a new job to where the log says that it was.

        Args:
            name: of the job.
            job: new.
            quanta: batches and mean loss of each quantum in which it trained.

        Returns:
            What its owner should know; mostly empty.

        Raises:
            CheckpointError: if checkpoints are damaged, of another job, or ahead of the log.
        """
        found = load_latest(self._directory.checkpoints / name)
        notes: list[str] = []
        if found is not None:
            checkpoint, _, damaged = found
            job.restore(checkpoint)
            notes += damaged
        differs = False
        behind = job.batches
        for batches, loss in quanta:
            done = min(behind, batches)
            behind -= done
            if done < batches:
                again = job.step(batches - done)
                # A quantum may have been trained in several slices, whose means were combined.
                differs |= done == 0 and not (math.isclose(again, loss) or math.isnan(again))
        if behind:
            raise CheckpointError(f"its checkpoint is {behind} batches ahead of the journal")
        if differs:
            notes.append("batches that were trained again gave other losses than before")
        return "; ".join(notes)

    def save_best(self, name: str, job: PreemptibleJob, batches: int) -> None:
        """Write the best checkpoint of a resident job, before its quantum is recorded.

        Args:
            name: of the job.
            job: after the quantum.
            batches: of the job, with those of the quantum.
        """
        save_checkpoint(self._directory.best / name, batches, job.state())

    def discard_unrecorded_best(self, name: str, batches: int) -> None:
        """Remove best checkpoints of a job of more batches than are recorded."""
        folder = self._directory.best / name
        for path in list(folder.iterdir()) if folder.is_dir() else ():
            if path.name.isdecimal() and int(path.name) > batches:
                remove_folder(path)

    def restore_best(self, member: Member, job: PreemptibleJob) -> bool:
        """Bring a resident job to its best checkpoint; return whether it has one.

        Raises:
            CheckpointError: if it is damaged.
        """
        if member.best is None:
            return False
        if member.best[0] == job.batches:
            return True
        found = load_latest(self._directory.best / member.thread.id)
        if found is None:
            return False
        job.restore(found[0])
        return True

    def remove(self, name: str) -> None:
        """Remove all checkpoints of a job."""
        self._saved.pop(name, None)
        for parent in (self._directory.checkpoints, self._directory.best):
            remove_folder(parent / name)

    def remove_others(self, names: Collection[str]) -> None:
        """Remove checkpoints of jobs that left as the pool was killed, or never joined."""
        for parent in (self._directory.checkpoints, self._directory.best):
            for folder in list(parent.iterdir()) if parent.is_dir() else ():
                if folder.name not in names:
                    remove_folder(folder)


def export_result(name: str, job: PreemptibleJob, folder: Path) -> None:
    """Write the result of a resident job, complete or not at all.

    Raises:
        JobFailedError: as of `job_errors`.
    """
    with staging_folder(folder) as staging:
        with job_errors(name, "while its result was written"):
            job.save_result(staging)
        commit_folder(staging, folder)
