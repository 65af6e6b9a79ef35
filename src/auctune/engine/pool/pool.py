"""Pool of jobs that share a device: one whose jobs are fixed, and one that they join and leave."""

import math
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from auctune.domain import AuctuneError
from auctune.engine.event_log import EventLog
from auctune.engine.pool.clock import Clock
from auctune.engine.pool.epoch import Epoch, PoolParams
from auctune.engine.pool.events import (
    ExitReason,
    JobJoined,
    JobLeft,
    JobNoted,
    JobOutlook,
    JobPaused,
    JobRejected,
    JobResumed,
    Member,
    OnUpdate,
    PoolDirectory,
    PoolEvent,
    PoolStarted,
    PoolState,
    PoolUpdate,
    QuantumTrained,
    check_version,
    event_record,
    read_event,
)
from auctune.engine.pool.jobs import (
    DeviceMemory,
    JobCheckpoints,
    JobFactory,
    JobFailedError,
    export_result,
    job_errors,
)
from auctune.engine.pool.process import DesiredJob, DesiredJobs, DesiredStatus
from auctune.engine.runtime.channel import error_record
from auctune.timeshare.thread import LearningThread
from auctune.train.preemptible import PreemptibleJob

# Batches of a new job that are timed, and taken back; the first ones warm up.
WARM_UP, TIMED = 2, 5

# Of the pool's time, what joins and leaves may take from the jobs that train; and of a quantum,
# how much of that at once.
_JOIN_SHARE, _JOIN_BURST = 0.1, 0.5


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


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that joins a pool.

    Attributes:
        thread: its id, target and quanta.
        settings: what it trains.
        rate: batches per quantum, or None if they are to be measured.
    """

    thread: LearningThread
    settings: dict[str, Any]
    rate: float | None


class Pool:
    """A pool whose jobs are fixed; their result is written when they reach their targets.

    Args:
        params: settings.
        factory: makes its jobs.
        clock: of its quanta.
        directory: which is this pool's alone.
        log: of the directory.
        started: first event of a new pool.
        on_update: called with each event from now on, if not None.
        now: monotonic clock, in seconds.

    Attributes:
        state: of the pool.
        device: memory that the jobs share.
        jobs: that are loaded, by id.

    Raises:
        InputError: if the log is of another release.
    """

    def __init__(
        self,
        params: PoolParams,
        factory: JobFactory,
        clock: Clock,
        directory: PoolDirectory,
        log: EventLog,
        started: PoolStarted,
        on_update: OnUpdate | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        for begun in log.events[:1]:
            check_version(begun, directory)
        self.state = PoolState.fold(map(read_event, log.events))
        self.jobs: dict[str, PreemptibleJob] = {}
        self.device = DeviceMemory(params.memory_bytes, now)
        self._params, self._factory, self._clock = params, factory, clock
        self._directory, self._log, self._started = directory, log, started
        self._on_update, self._now = on_update, now
        self._checkpoints = JobCheckpoints(directory, params.saved_every)
        self._epoch: Epoch | None = None

    def restore(self) -> None:
        """Load all members, and bring them to where the log says that they are.

        Raises:
            AuctuneError: if a job cannot be restored.
        """
        for name in list(self.state.members):
            self._restore_job(name)

    def join(self, new: Sequence[NewJob]) -> None:
        """Add jobs; they are recorded once all of them have been loaded.

        Raises:
            InputError: if a job cannot be trained, or is too large for the device.
            JobFailedError: if the code of a job raises an error.
        """
        events = [self._load(one) for one in new]
        self.record_start()
        for event in events:
            self.record(event)
        self._epoch = None

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
        self._before_record(event)
        self._append(event)
        reached = epoch.apply(event)
        self._publish(event)
        for name in reached:
            self._finish(name)
        for name, batches in zip(event.jobs, event.batches, strict=True):
            if batches and self.device.is_resident(name):
                self._checkpoints.save_if_due(name, self.jobs[name])
        for name, why in epoch.too_slow.items():
            self._handle_too_slow(name, why)
        return True

    def export(self, name: str) -> None:
        """Write the result of a job.

        Raises:
            JobFailedError: if its code raises an error.
        """
        self.device.swap_in(name)
        export_result(name, self.jobs[name], self._directory.result(name))

    def record_start(self) -> None:
        """Record that the pool was started, unless its log says so."""
        if not self._log.events:
            self.record(self._started)

    def record(self, event: PoolEvent) -> None:
        """Record an event, and report it."""
        self._append(event)
        self._publish(event)

    def _append(self, event: PoolEvent) -> None:
        self._log.append(event_record(event))
        self.state.apply(event)

    def _publish(self, event: PoolEvent) -> None:
        if self._on_update is not None:
            outlooks: Sequence[JobOutlook] = ()
            if isinstance(event, QuantumTrained):
                assert self._epoch is not None
                outlooks = self._epoch.outlooks(event.time)
            self._on_update(PoolUpdate(len(self._log.events), event, outlooks))

    def _load(self, new: NewJob) -> JobJoined:
        name, begun = new.thread.id, self._now()
        with job_errors(name, "while it was made"):
            job = self.jobs[name] = self._factory.make(name, new.settings)
            rate, memory_bytes = self._measure(job, new.rate)
        self._add(name, job, memory_bytes)
        return JobJoined(
            id=name,
            time=new.thread.start,
            deadline=new.thread.deadline,
            threshold=new.thread.threshold,
            settings=new.settings,
            rate=rate,
            memory_bytes=memory_bytes,
            seconds=self._now() - begun,
        )

    def _restore_job(self, name: str) -> None:
        member = self.state.members[name]
        with job_errors(name, "while it was restored"):
            job = self.jobs[name] = self._factory.make(name, member.settings)
            note = self._checkpoints.restore(name, job, self.state.quanta_of(name))
        self._add(name, job, member.memory_bytes)
        if note:
            self.record(JobNoted(name, note))

    def _add(self, name: str, job: PreemptibleJob, memory_bytes: int) -> None:
        self._checkpoints.add(name, job)
        self.device.add(name, job, memory_bytes)

    def _measure(self, job: PreemptibleJob, rate: float | None) -> tuple[float, int]:
        """Return rate and memory of a new job, which is as new afterwards."""
        before = job.state()
        job.step(WARM_UP)
        begun = self._now()
        job.step(TIMED)
        seconds = self._now() - begun
        memory_bytes = job.memory_bytes
        job.restore(before)
        if rate is not None:
            return rate, memory_bytes
        assert self._params.quantum_seconds is not None
        return TIMED * self._params.quantum_seconds / seconds, memory_bytes

    def _start_epoch(self) -> Epoch:
        return Epoch(
            self._params,
            self.jobs,
            self.device,
            self._checkpoints,
            self._clock,
            self._now,
            members=[self.state.members[name] for name in self.state.active],
            quanta=self.state.quanta,
        )

    def _finish(self, name: str) -> None:
        """Write the result of a job that is done, which leaves the device."""
        self.device.swap_in(name)
        self._checkpoints.save(name, self.jobs[name])
        self.export(name)
        self.device.suspend(name)

    def _before_record(self, event: QuantumTrained) -> None:
        """Write what must be on disk before a quantum is recorded."""

    def _handle_too_slow(self, name: str, why: str) -> None:
        raise JobFailedError(name, f"in its newest unit: {why}")


class OpenPool(Pool):
    """A pool that jobs join and leave while it runs.

    A job leaves with its best result: that of the quantum with its lowest loss, unless its last
    quantum reached the target. Joins and leaves take a bounded share of the time of the jobs that
    train (`JoinBudget`). Arguments are those of `Pool`.
    """

    @cached_property
    def _join_budget(self) -> JoinBudget:
        return JoinBudget(self._params.quantum_seconds, self._now)

    def restore(self) -> None:
        """Load all members; those that cannot be restored leave."""
        self.record_start()
        self._checkpoints.remove_others(self.state.members)
        for name, member in list(self.state.members.items()):
            self._checkpoints.discard_unrecorded_best(name, member.batches)
            try:
                self._restore_job(name)
            except AuctuneError as error:
                # The log has the paths that its owner is not to know.
                traceback.print_exc()
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
            self.record(JobPaused(name) if is_paused else JobResumed(name))
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
        name, thread = new.id, LearningThread(new.id, time, new.deadline, new.threshold)
        try:
            self.join([NewJob(thread, new.settings, new.batches_per_quantum)])
        except AuctuneError as error:
            self._release(name)
            record = error_record(error)
            self.record(JobRejected(name, record["place"], record["found"], record["expected"]))

    def _measure(self, job: PreemptibleJob, rate: float | None) -> tuple[float, int]:
        """Nothing is trained before a job's first quantum, which is charged."""
        assert rate is not None
        return rate, job.memory_bytes

    def _before_record(self, event: QuantumTrained) -> None:
        """Write the best checkpoints of the quantum's jobs."""
        for name, batches, loss in zip(event.jobs, event.batches, event.losses, strict=True):
            member = self.state.members[name]
            if member.improves(batches, loss):
                self.device.swap_in(name)
                self._checkpoints.save_best(name, self.jobs[name], member.batches + batches)

    def _handle_too_slow(self, name: str, why: str) -> None:
        # One that reached its target in batches before that one leaves as such.
        if not self.state.members[name].is_done:
            self._leave(name, ExitReason.TOO_SLOW, why)

    def _leave(self, name: str, reason: ExitReason, why: str = "") -> None:
        member = self.state.members[name]
        with self._join_budget.spend():
            try:
                has_result = self._export_best(name, member, reason)
            except AuctuneError as error:
                self.record(JobNoted(name, str(error)))
                has_result = False
            best = member.best if has_result else None
            self.record(JobLeft(name, reason, why, best))
            self._release(name)
        self._epoch = None

    def _export_best(self, name: str, member: Member, reason: ExitReason) -> bool:
        """Write the result of a job that leaves; return whether it has one."""
        is_reached = reason is ExitReason.TARGET_REACHED
        if reason in (ExitReason.CANCELLED, ExitReason.FAILED):
            return False
        if is_reached and self._directory.result(name).exists():
            return True
        self.device.swap_in(name)
        if not is_reached and not self._checkpoints.restore_best(member, self.jobs[name]):
            return False
        self.export(name)
        return True

    def _release(self, name: str) -> None:
        if self.jobs.pop(name, None) is not None:
            self.device.remove(name)
            self._factory.release(name)
        self._checkpoints.remove(name)
