"""Jobs of a pool in the process that trains them: what the requests of the pool say is done here.

`auctune.engine.messages.pool` has the requests. A job stays on the device after its time slice as
long as there is room. Checkpoints are numbered by a job's batches. Those of several jobs need not
be of one moment: the pool's log has how many batches of each are due, and a job that is behind
trains them again, bit-identically. No checkpoint is ahead of the log, but for a best one, which is
written just before its quantum is recorded, and discarded if that is lost.
"""

import math
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from auctune.domain import AuctuneError, InputError
from auctune.engine.messages.pool import (
    ExportJob,
    JobExported,
    JobLoaded,
    LoadJob,
    MemoryState,
    PoolDone,
    PoolReply,
    PoolRequest,
    ReleaseJob,
    SliceResult,
    SlicesTrained,
    StartPool,
    TimeSlice,
    TrainQuantum,
)
from auctune.engine.pool.device import JobFailedError
from auctune.engine.pool.events import PoolDirectory
from auctune.files.atomic import clean_staging, commit_folder, remove_folder, staging_folder
from auctune.train.checkpoint import discard_newer, load_latest, save_checkpoint
from auctune.train.job import LoraJob
from auctune.train.preemptible import (
    LoraJobFactory,
    PreemptibleJob,
    PreemptibleLoraJob,
    StepTooLongError,
)

# Batches of a new job that are timed, and taken back; the first ones warm up.
WARM_UP, TIMED = 2, 5


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


class LoraJobs:
    """Job factory whose settings are the fields of `LoraJob`, without its id and schedule.

    Args:
        factory: of jobs that share a base model.
    """

    def __init__(self, factory: LoraJobFactory) -> None:
        self._factory = factory

    def make(self, job: str, settings: Mapping[str, Any]) -> PreemptibleLoraJob:
        values = {"target_modules": (), **settings}
        for name, kind in (("data", Path), ("start_from", Path), ("target_modules", tuple)):
            if name in values:
                values[name] = kind(values[name])
        lora_job = LoraJob(id=job, schedule="constant", **values)
        # The trainer's own checkpoints are never written: the pool's are.
        return self._factory.make(lora_job, lora_job.data.parent / "none")

    def release(self, job: str) -> None:
        self._factory.release(job)


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
        raise JobFailedError(job, f"{job} failed {doing}: {what}") from error


class PoolJobs:
    """The jobs of a pool, and the requests about them.

    Args:
        factory: makes its jobs.
        directory: of the pool; results and checkpoints are written there.
        memory_bytes, saved_every: as of `StartPool`.
        now: monotonic clock, in seconds.
        should_stop: whether no further batch should be begun.
    """

    def __init__(
        self,
        factory: JobFactory,
        directory: PoolDirectory,
        memory_bytes: int | None = None,
        saved_every: float = 30.0,
        now: Callable[[], float] = time.perf_counter,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._factory, self._directory = factory, directory
        self._limit, self._saved_every = memory_bytes, saved_every
        self._now, self._should_stop = now, should_stop
        self._jobs: dict[str, PreemptibleJob] = {}
        # Bytes of each while it trains, as of when it was loaded; jobs on the device, oldest first.
        self._needs: dict[str, int] = {}
        self._resident: list[str] = []
        self._suspended, self._resumed, self._swap_seconds, self._max_bytes = 0, 0, 0.0, 0
        # Batches of each job's newest checkpoint, and when it was written.
        self._saved: dict[str, tuple[int, float]] = {}

    def handle(self, request: PoolRequest) -> PoolReply:
        """Do what a request says.

        Raises:
            JobFailedError: if the code of a job raises an error.
            AuctuneError: if the request cannot be done.
        """
        match request:
            case StartPool():
                self._remove_other_checkpoints(request.jobs)
                return PoolDone(memory=self._memory)
            case LoadJob():
                return self._load(request)
            case TrainQuantum():
                results = self._train(request)
                return SlicesTrained(results=results, memory=self._memory)
            case ExportJob():
                has_result = self._export(request)
                return JobExported(has_result=has_result, memory=self._memory)
            case ReleaseJob():
                self._release(request.job)
                return PoolDone(memory=self._memory)

    @property
    def _memory(self) -> MemoryState:
        return MemoryState(
            tuple(self._resident),
            self._suspended,
            self._resumed,
            self._swap_seconds,
            self._max_bytes,
        )

    def _remove_other_checkpoints(self, jobs: Collection[str]) -> None:
        """Remove those of jobs that left as the pool was killed, or never joined."""
        for parent in (self._directory.checkpoints, self._directory.best):
            for folder in list(parent.iterdir()) if parent.is_dir() else ():
                if folder.name not in jobs:
                    remove_folder(folder)

    def _load(self, request: LoadJob) -> JobLoaded:
        begun, name = self._now(), request.job
        is_new = request.memory_bytes is None
        speed, warning = None, ""
        try:
            with job_errors(name, f"while it was {'made' if is_new else 'restored'}"):
                job = self._jobs[name] = self._factory.make(name, request.settings)
                needs = request.memory_bytes or 0
                if request.measured:
                    speed, needs = self._measure(job)
                elif is_new:
                    needs = job.memory_bytes
                else:
                    warning = self._restore(name, job, request.quanta)
            if self._limit is not None and needs > self._limit:
                found = f"{self._limit} bytes, but {name!r} takes {needs} while it trains"
                raise InputError("memory", found, f"{needs} bytes at least")
        except AuctuneError:
            if self._jobs.pop(name, None) is not None:
                self._factory.release(name)
            raise
        self._needs[name] = needs
        self._saved[name] = (job.batches, self._now())
        if self._limit is None:
            self._resident.append(name)
        else:
            job.suspend()
        return JobLoaded(
            memory=self._memory,
            memory_bytes=needs,
            seconds=self._now() - begun,
            batches_per_second=speed,
            notes=getattr(job, "notes", ()),
            warning=warning,
        )

    def _measure(self, job: PreemptibleJob) -> tuple[float, int]:
        """Return batches a second and memory of a new job, which is as new afterwards."""
        before = job.state()
        job.step(WARM_UP)
        begun = self._now()
        job.step(TIMED)
        seconds, memory_bytes = self._now() - begun, job.memory_bytes
        job.restore(before)
        return TIMED / seconds, memory_bytes

    def _restore(self, name: str, job: PreemptibleJob, quanta: Sequence[tuple[int, float]]) -> str:
        """Bring a new job to the end of its recorded quanta; return what its owner should know.

        Raises:
            CheckpointError: if all checkpoints are damaged, or of another job.
        """
        recorded = sum(batches for batches, _ in quanta)
        for parent in (self._directory.checkpoints, self._directory.best):
            discard_newer(parent / name, recorded)
        found = load_latest(self._directory.checkpoints / name)
        notes: list[str] = []
        if found is not None:
            checkpoint, _, damaged = found
            job.restore(checkpoint)
            notes += damaged
        differs = False
        trained = job.batches
        for batches, loss in quanta:
            done = min(trained, batches)
            trained -= done
            if done < batches:
                again = job.step(batches - done)
                # A quantum may have been trained in several slices, whose means were combined.
                differs |= done == 0 and not (math.isclose(again, loss) or math.isnan(again))
        if differs:
            notes.append("batches that were trained again gave other losses than before")
        return "; ".join(notes)

    def _train(self, request: TrainQuantum) -> dict[str, SliceResult]:
        # Checkpoints take time of the quantum.
        end = math.inf if request.seconds is None else self._now() + request.seconds
        for name in self._resident:
            self._save_if_due(name)
        results: dict[str, SliceResult] = {}
        slices = sorted(request.slices, key=lambda one: one.job not in self._resident)
        for place, one in enumerate(slices):
            self._swap_in(one.job, [later.job for later in slices[place + 1 :]])
            # Now, and not when it leaves: no checkpoint may be ahead of the log.
            self._save_if_due(one.job)
            if results and self._is_over(end):
                break
            with job_errors(one.job, f"in unit {request.time}"):
                results[one.job] = self._train_slice(one, end)
        for one in slices:
            if one.best is not None and one.job in results:
                low, high = one.best
                if low < results[one.job].loss < high:
                    self._swap_in(one.job)
                    job = self._jobs[one.job]
                    save_checkpoint(self._directory.best / one.job, job.batches, job.state())
        return results

    def _train_slice(self, one: TimeSlice, end: float) -> SliceResult:
        """Train one batch at a time: a quantum, and a slice, is overrun by one at most."""
        job, begun, result = self._jobs[one.job], self._now(), SliceResult()
        losses = accuracies = 0.0
        while result.batches < one.batches:
            is_late = self._is_over(end) or self._now() - begun > one.max_seconds
            if result.batches and is_late:
                break
            try:
                losses += job.step(1)
            except StepTooLongError as error:
                result.too_slow = str(error)
                break
            accuracies += getattr(job, "accuracy", math.nan)
            result.batches += 1
        result.seconds = self._now() - begun
        result.read = getattr(job, "learned", (0, 0))
        if result.batches:
            # The code of a job may return numbers of NumPy.
            result.loss = float(losses / result.batches)
            result.accuracy = float(accuracies / result.batches)
        return result

    def _is_over(self, end: float) -> bool:
        return self._should_stop() or self._now() >= end

    def _export(self, request: ExportJob) -> bool:
        name, job = request.job, self._jobs[request.job]
        self._swap_in(name)
        if request.best is None:
            self._save(name)
        elif request.best != job.batches:
            found = load_latest(self._directory.best / name)
            if found is None:
                return False
            job.restore(found[0])
        folder = self._directory.result(name)
        # Only this worker writes results.
        clean_staging(folder.parent)
        with staging_folder(folder) as staging:
            with job_errors(name, "while its result was written"):
                job.save_result(staging)
            commit_folder(staging, folder)
        if request.best is None:
            self._suspend(name)
        return True

    def _release(self, name: str) -> None:
        job = self._jobs.pop(name, None)
        if job is not None:
            # The tensors of a suspended one are empty, and cannot be taken apart.
            job.resume()
            if name in self._resident:
                self._resident.remove(name)
            self._factory.release(name)
        for parent in (self._directory.checkpoints, self._directory.best):
            remove_folder(parent / name)

    def _save_if_due(self, name: str) -> None:
        if self._now() - self._saved[name][1] >= self._saved_every:
            self._save(name)

    def _save(self, name: str) -> None:
        """Write a resident job's checkpoint if it has trained since the last one."""
        job = self._jobs[name]
        if job.batches != self._saved[name][0]:
            save_checkpoint(self._directory.checkpoints / name, job.batches, job.state())
        self._saved[name] = (job.batches, self._now())

    def _swap_in(self, name: str, waiting: Collection[str] = ()) -> None:
        """Bring a job onto the device; those that do not wait to train leave it first, if need be.

        Args:
            name: of the job.
            waiting: jobs that are still to train in this quantum, itself not among them.
        """
        begun, has_moved = self._now(), False
        while self._limit is not None and self._bytes_with(name) > self._limit:
            others = [one for one in self._resident if one != name]
            if not others:
                break
            self._suspend(min(others, key=lambda one: one in waiting))
            has_moved = True
        if name not in self._resident:
            self._jobs[name].resume()
            self._resident.append(name)
            self._resumed += 1
            has_moved = True
        if has_moved:
            self._swap_seconds += self._now() - begun
        self._max_bytes = max(self._max_bytes, self._bytes_with(name))

    def _suspend(self, name: str) -> None:
        self._jobs[name].suspend()
        self._resident.remove(name)
        self._suspended += 1

    def _bytes_with(self, name: str) -> int:
        """Return the bytes in use if a job, resident or not, trained now."""
        others = sum(self._jobs[one].resting_bytes for one in self._resident if one != name)
        is_resident = name in self._resident
        return others + (self._jobs[name].memory_bytes if is_resident else self._needs[name])
