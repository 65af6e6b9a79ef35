"""Pool of jobs that share a device: one whose jobs are fixed, and one that they join and leave.

A pool decides who trains what, and when a job joins, leaves and has a result; it runs where its
events are recorded. The jobs are on its device (`PoolDevice`), which may be another process.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from auctune.domain import AuctuneError
from auctune.domain.checks import check_positive
from auctune.engine.messages.base import ErrorRecord
from auctune.engine.messages.pool import ExportJob, LoadJob, ReleaseJob, StartPool
from auctune.engine.pool.clock import Clock
from auctune.engine.pool.device import JobFailedError, PoolDevice
from auctune.engine.pool.epoch import MAX_STEP_QUANTA, Epoch, PoolParams
from auctune.engine.pool.events import (
    ExitReason,
    JobJoined,
    JobLeft,
    JobNoted,
    JobOutlook,
    JobRejected,
    OnEvent,
    PoolEvent,
    PoolState,
)
from auctune.timeshare.play import play
from auctune.timeshare.thread import LearningThread, LossCurve

# Of the pool's time, what joins and leaves may take from the jobs that train; and of a quantum,
# how much of that at once.
_JOIN_SHARE, _JOIN_BURST = 0.1, 0.5


class DesiredStatus(StrEnum):
    """What the owner of a job wants of it."""

    RUNNING = "running"
    PAUSED = "paused"
    """No share until it is to run again; its deadline stays."""
    STOPPED = "stopped"
    """Leave with the best result so far."""


@dataclass(frozen=True, slots=True)
class DesiredJob:
    """A job that an open pool should have; a job that is not desired any more is cancelled.

    Attributes:
        id: unique for ever, and fit for a folder's name.
        deadline: the quantum by whose beginning it must be done.
        threshold: target loss of a quantum, > 0.
        settings: what it trains, as the pool's job factory reads it; JSON values.
        batches_per_quantum: estimate, corrected by what it trains.
        status: what its owner wants of it.
    """

    id: str
    deadline: int
    threshold: float
    settings: dict[str, Any]
    batches_per_quantum: float
    status: DesiredStatus = DesiredStatus.RUNNING

    def __post_init__(self) -> None:
        check_positive(self.threshold, "threshold", "a loss > 0")
        check_positive(self.batches_per_quantum, "batches_per_quantum", "a number > 0")


DesiredJobs = Mapping[str, DesiredJob]
"""All jobs that an open pool should have, by id."""


class JoinBudget:
    """Token bucket of the seconds that joins and leaves may take from the jobs that train.

    Args:
        quantum_seconds: length of a quantum; None: there is no limit.
        now: monotonic clock, in seconds.
    """

    def __init__(self, quantum_seconds: float | None, now: Callable[[], float]) -> None:
        self._max_seconds = math.inf if quantum_seconds is None else _JOIN_BURST * quantum_seconds
        self._seconds, self._now, self._refilled = self._max_seconds, now, now()

    def has_time(self) -> bool:
        """Return whether a job may join now; how long that takes is known afterwards."""
        now = self._now()
        self._seconds += _JOIN_SHARE * (now - self._refilled)
        self._seconds, self._refilled = min(self._seconds, self._max_seconds), now
        return self._seconds > 0

    @contextmanager
    def spend(self) -> Iterator[None]:
        """Context manager whose block's time is spent."""
        begun = self._now()
        try:
            yield
        finally:
            self._seconds -= self._now() - begun


class Pool:
    """A pool whose jobs are fixed; their result is written when they reach their targets.

    Args:
        params: settings.
        device: on which no job is loaded.
        clock: of its quanta.
        state: after all recorded events.
        record: records an event: when it returns, the event is on disk.
        now: monotonic clock, in seconds.

    Attributes:
        state: of the pool.
        device: on which its jobs are.
        notes: on the data of its jobs, by id.
    """

    keeps_best: ClassVar[bool] = False
    """True if a checkpoint of each job's best quantum is kept."""
    measures_new: ClassVar[bool] = True
    """True if speed and memory of a new job are measured by training some batches."""

    def __init__(
        self,
        params: PoolParams,
        device: PoolDevice,
        clock: Clock,
        state: PoolState,
        record: OnEvent,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.state, self.device = state, device
        self.notes: dict[str, Sequence[str]] = {}
        self._params, self._clock, self._record, self._now = params, clock, record, now
        self._epoch: Epoch | None = None

    def restore(self, jobs: Iterable[str]) -> None:
        """Load members, and bring them to where the log says that they are.

        Args:
            jobs: their ids; the others train no more.

        Raises:
            AuctuneError: if a job cannot be restored.
        """
        for name in jobs:
            self._restore_job(name)

    def load(
        self, thread: LearningThread, settings: dict[str, Any], rate: float | None
    ) -> JobJoined:
        """Load a new job; it joins when the event is recorded.

        Args:
            thread: its id, target and quanta.
            settings: what it trains.
            rate: batches per quantum, or None if they are to be measured.

        Raises:
            InputError: if it cannot be trained, or is too large for the device.
            JobFailedError: if its code raises an error.
        """
        loaded = self.device.load(LoadJob(thread.id, settings, measured=self.measures_new))
        self.notes[thread.id] = loaded.notes
        if rate is None:
            assert self._params.quantum_seconds is not None
            assert loaded.batches_per_second is not None
            rate = loaded.batches_per_second * self._params.quantum_seconds
        return JobJoined(
            id=thread.id,
            time=thread.start,
            deadline=thread.deadline,
            threshold=thread.threshold,
            settings=settings,
            rate=rate,
            memory_bytes=loaded.memory_bytes,
            seconds=loaded.seconds,
        )

    def run_quantum(self) -> bool:
        """Train the next quantum; return False if there is no job that can train.

        Raises:
            JobFailedError: if the code of a job raises an error: the quantum is not recorded, and
                the pool has to be restored from its log.
            InfeasibleSharesError: if the allocator gives shares to jobs that are not active.
        """
        if not self.state.active:
            return False
        if self._epoch is None:
            self._epoch = self._start_epoch()
        epoch = self._epoch
        quantum = epoch.next_quantum(self.state.last)
        if quantum is None:
            return False
        event = epoch.train(quantum)
        reached = epoch.apply(event)
        self.record(event, epoch.outlooks(event.time))
        for name in reached:
            self.export(name)
        for name, why in epoch.too_slow.items():
            self._handle_too_slow(name, why)
        return True

    def export(self, name: str) -> None:
        """Write the result of a job that is done."""
        self.device.export(ExportJob(name))

    def record(self, event: PoolEvent, outlooks: Sequence[JobOutlook] = ()) -> None:
        """Record an event, and apply it."""
        self._record(event, outlooks)
        self.state.apply(event)
        if isinstance(event, JobJoined | JobLeft):
            self._epoch = None

    def _restore_job(self, name: str) -> None:
        member = self.state.members[name]
        loaded = self.device.load(
            LoadJob(name, member.settings, member.memory_bytes, self.state.quanta_of(name))
        )
        self.notes[name] = loaded.notes
        if loaded.warning:
            self.record(JobNoted(name, loaded.warning))

    def _start_epoch(self) -> Epoch:
        return Epoch(
            self._params,
            self.device,
            self._clock,
            members=[self.state.members[name] for name in self.state.active],
            quanta=self.state.quanta,
            keeps_best=self.keeps_best,
        )

    def _handle_too_slow(self, name: str, why: str) -> None:
        raise JobFailedError(name, f"{name} failed in its newest unit: {why}")


class OpenPool(Pool):
    """A pool that jobs join and leave while it runs.

    A job leaves with its best result: that of the quantum with its lowest loss, unless its last
    quantum reached the target. Joins and leaves take a bounded share of the time of the jobs that
    train (`JoinBudget`). Arguments are those of `Pool`.
    """

    keeps_best, measures_new = True, False

    @cached_property
    def _join_budget(self) -> JoinBudget:
        return JoinBudget(self._params.quantum_seconds, self._now)

    def start(self, folder: Path) -> None:
        """Start the pool on its device, and load all members; one that cannot be restored leaves.

        Args:
            folder: of the pool (`OpenPoolDirectory`).
        """
        params, seconds = self._params, self._params.quantum_seconds
        self.device.start(
            StartPool(
                folder=str(folder),
                jobs=list(self.state.members),
                memory_bytes=params.memory_bytes,
                max_step_seconds=math.inf if seconds is None else MAX_STEP_QUANTA * seconds,
                saved_every=params.saved_every,
            )
        )
        for name in list(self.state.members):
            try:
                self._restore_job(name)
            except AuctuneError as error:
                self._leave(name, ExitReason.FAILED, str(error))

    def reconcile(self, desired: DesiredJobs) -> bool:
        """Have jobs join, pause and leave as desired, from the next quantum on.

        Jobs are loaded one after another, as long as that takes no more of the time of those that
        train than it may. Return False if some are still to be loaded, by another call.
        """
        self.remove_finished()
        for name in list(self.state.members):
            if name not in desired:
                self._leave(name, ExitReason.CANCELLED)
            elif desired[name].status is DesiredStatus.STOPPED:
                self._leave(name, ExitReason.STOPPED)
        is_complete = True
        for name, one in desired.items():
            if name in self.state.gone:
                continue
            if name not in self.state.members:
                is_complete &= self._try_join(one)
            if name in self.state.members:
                self._set_paused(name, is_paused=one.status is DesiredStatus.PAUSED)
        return is_complete

    def run_quantum(self) -> bool:
        self.remove_finished()
        try:
            has_trained = super().run_quantum()
        except JobFailedError as error:
            self._leave(error.job, ExitReason.FAILED, str(error))
            raise
        self.remove_finished()
        return has_trained

    def remove_finished(self) -> None:
        """Remove jobs that are done, and those whose deadlines have passed."""
        quantum = self._next_time()
        for name, member in list(self.state.members.items()):
            if member.is_done:
                self._leave(name, ExitReason.TARGET_REACHED)
            elif member.thread.deadline <= quantum:
                self._leave(name, ExitReason.DEADLINE_MISSED)

    def _next_time(self) -> int:
        """Return the earliest quantum that can begin now."""
        return max(self.state.last + 1, int(self._clock.moment() // 1))

    def _set_paused(self, name: str, *, is_paused: bool) -> None:
        if self.state.members[name].is_paused != is_paused:
            self.state.members[name].is_paused = is_paused
            self._epoch = None

    def _start_epoch(self) -> Epoch:
        # It sees all quanta again after each join and leave.
        with self._join_budget.spend():
            return super()._start_epoch()

    def _try_join(self, new: DesiredJob) -> bool:
        """Have a job join, or record why it cannot; return False if it has to wait."""
        name, time = new.id, self._next_time()
        if new.status is DesiredStatus.STOPPED:
            self.record(JobLeft(name, ExitReason.STOPPED, "", None))
            return True
        if new.deadline <= time:
            self.record(JobLeft(name, ExitReason.DEADLINE_MISSED, "", None))
            return True
        # Where no job trains, loading takes nobody's time.
        if not self.state.active:
            self._load_new(new, time)
            return True
        if not self._join_budget.has_time():
            return False
        with self._join_budget.spend():
            self._load_new(new, time)
        return True

    def _load_new(self, new: DesiredJob, time: int) -> None:
        thread = LearningThread(new.id, time, new.deadline, new.threshold)
        try:
            event = self.load(thread, new.settings, new.batches_per_quantum)
        except AuctuneError as error:
            record = ErrorRecord.of(error)
            self.record(JobRejected(new.id, record.place, record.found, record.expected))
        else:
            self.record(event)

    def export(self, name: str) -> None:
        # It leaves, and its result is written then.
        pass

    def _handle_too_slow(self, name: str, why: str) -> None:
        # One that reached its target in batches before that one leaves as such.
        if not self.state.members[name].is_done:
            self._leave(name, ExitReason.TOO_SLOW, why)

    def _leave(self, name: str, reason: ExitReason, why: str = "") -> None:
        best = self.state.members[name].best
        with self._join_budget.spend():
            try:
                has_result = best is not None and self._export(name, reason, best[0])
            except AuctuneError as error:
                self.record(JobNoted(name, str(error)))
                has_result = False
            self.record(JobLeft(name, reason, why, best if has_result else None))
            self.device.release(ReleaseJob(name))

    def _export(self, name: str, reason: ExitReason, best: int) -> bool:
        """Write the result of a job that leaves; return whether it has one."""
        if reason in (ExitReason.CANCELLED, ExitReason.FAILED):
            return False
        is_reached = reason is ExitReason.TARGET_REACHED
        return self.device.export(ExportJob(name, None if is_reached else best))


def load_kernels(params: PoolParams) -> None:
    """Compile the kernels of allocator and estimator now, and not in the first jobs' time."""
    curve = LossCurve(np.array([1.0, 500.0]), np.array([9.0, 0.5]))
    threads = [LearningThread(name, 0, 30, 0.6) for name in ("one", "other")]
    play(params.allocator, threads, [curve] * 2, [8.0] * 2)
    bank = params.estimator.start_bank(1)
    bank.observe(np.array([8.0]), np.array([2.0]), np.array([True]))
    bank.needs(np.array([1.0]))
