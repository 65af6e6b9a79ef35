"""Directory of a pool, its events, and the state that is folded from them.

An event is recorded, as events of the pool's zone, once what it reports is on disk, or can be
computed again: a quantum that was interrupted is trained again from the checkpoints, which hold
what the recorded ones made. Times are quanta.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from auctune.timeshare.thread import LearningThread


@dataclass(frozen=True, slots=True)
class PoolDirectory:
    """Directory of a pool.

    DIR/
      results/JOB             result of a job
      state/checkpoints/JOB   checkpoints from which a job is resumed
      state/best/JOB          checkpoint of the job's lowest loss, in an open pool
    """

    root: Path

    @property
    def results(self) -> Path:
        """Results of jobs."""
        return self.root / "results"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of jobs."""
        return self.root / "state" / "checkpoints"

    @property
    def best(self) -> Path:
        """Best checkpoints of jobs."""
        return self.root / "state" / "best"

    def result(self, job: str) -> Path:
        """Return the folder of a job's result."""
        return self.results / job


class OpenPoolDirectory(PoolDirectory):
    """Directory of an open pool, whose results are in `state/results` until they are archived."""

    @property
    def results(self) -> Path:
        return self.root / "state" / "results"


class ExitReason(StrEnum):
    """Why a job left an open pool."""

    TARGET_REACHED = "reached"
    DEADLINE_MISSED = "missed"
    STOPPED = "ended"
    """Its owner stopped it, and takes its best result."""
    CANCELLED = "dropped"
    TOO_SLOW = "slow"
    """A batch took longer than a job may hold the pool."""
    FAILED = "broken"
    """Its own code raised an error."""


@dataclass(frozen=True, slots=True)
class JobJoined:
    """A job may train from quantum `time` on.

    Attributes:
        id: of the job.
        time, deadline: its first quantum, and the one by whose beginning it must be done.
        threshold: target loss.
        settings: what it trains, as the pool's job factory reads it.
        rate: estimate of its batches per quantum.
        memory_bytes: that it takes while it trains.
        seconds: that loading it took.
    """

    id: str
    time: int
    deadline: int
    threshold: float
    settings: dict[str, Any]
    rate: float
    memory_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class JobRejected:
    """A job cannot be trained; place, found and expected as of an `InputError`."""

    id: str
    place: str
    found: str
    expected: str


@dataclass(frozen=True, slots=True)
class QuantumTrained:
    """A quantum was trained; lists are in the order of `jobs`.

    Attributes:
        time: number of the quantum.
        moment: when it had been trained.
        span: how much of a quantum there was to train in.
        jobs: ids of the jobs that shared it.
        shares: of the quantum.
        batches: that each trained.
        losses: their means; NaN where there are none.
        seconds: that training took.
        rates: estimates of batches per quantum after it.
        read: rows and tokens that each has trained so far; zeros if it does not count them.
        accuracies: means over the batches; NaN where there are none.
    """

    time: int
    moment: float
    span: float
    jobs: list[str]
    shares: list[float]
    batches: list[int]
    losses: list[float]
    seconds: list[float]
    rates: list[float]
    read: list[tuple[int, int]]
    accuracies: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class JobLeft:
    """A job left an open pool; its result, if it has one, is on disk.

    Attributes:
        id: of the job.
        reason: why it left.
        why: the error, if it failed or was too slow.
        best: batches and loss of the quantum with its lowest loss; None without a result.
    """

    id: str
    reason: ExitReason
    why: str
    best: tuple[int, float] | None


@dataclass(frozen=True, slots=True)
class JobNoted:
    """The owner of a job should know this."""

    id: str
    text: str


PoolEvent = JobJoined | JobRejected | QuantumTrained | JobLeft | JobNoted


class JobStatus(StrEnum):
    """Outlook of a job in a pool."""

    NOT_STARTED = "not begun"
    TRAINING = "learning"
    IN_TIME = "in time"
    LATE = "late"
    NO_SHARE = "resting"
    UNREACHABLE = "out of reach"
    DIVERGED = "no number"
    DONE = "done"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class JobOutlook:
    """Forecast of a job after a quantum.

    Attributes:
        id: of the job.
        share: of the quantum.
        batches: trained in all.
        loss: of the last quantum in which it trained, or None.
        threshold: target loss.
        deadline: quantum.
        finish: when it was done, or will be if its share stays; None if it cannot be said.
        status: how it stands.
    """

    id: str
    share: float
    batches: int
    loss: float | None
    threshold: float
    deadline: int
    finish: float | None
    status: JobStatus


OnEvent = Callable[[PoolEvent, Sequence[JobOutlook]], None]
"""Called with each event, and with the outlooks of the jobs of a quantum; none for other events."""


@dataclass
class Member:
    """A job of a pool.

    Attributes:
        thread: as allocators see it.
        settings: what it trains.
        rate: estimate of its batches per quantum when it joined.
        memory_bytes: that it takes while it trains.
        is_paused: whether it has no share for now.
        batches: trained.
        best: batches and loss of the quantum with the lowest loss; None before the first.
        is_done: whether its threshold was reached.
    """

    thread: LearningThread
    settings: dict[str, Any]
    rate: float
    memory_bytes: int
    is_paused: bool = False
    batches: int = 0
    best: tuple[int, float] | None = None
    is_done: bool = False

    def add(self, batches: int, loss: float) -> None:
        """Count batches that it trained in a quantum."""
        self.batches += batches
        if math.isfinite(loss) and (self.best is None or loss < self.best[1]):
            self.best = (self.batches, loss)
        self.is_done |= loss <= self.thread.threshold

    @property
    def best_bounds(self) -> tuple[float, float]:
        """Bounds of the loss of a quantum that is the best so far, and not the last."""
        return self.thread.threshold, math.inf if self.best is None else self.best[1]


@dataclass
class PoolState:
    """State of a pool.

    Attributes:
        members: jobs of the pool, by id, in the order in which they joined.
        gone: ids of jobs that left or were rejected.
        quanta: all in which one of the members was.
        last: number of the newest quantum; -1 before the first.
        moment: when it had been trained.
    """

    members: dict[str, Member] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    quanta: list[QuantumTrained] = field(default_factory=list)
    last: int = -1
    moment: float = 0.0

    @property
    def active(self) -> tuple[str, ...]:
        """Ids of the members that share the next quantum."""
        return tuple(name for name, member in self.members.items() if not member.is_paused)

    def apply(self, event: PoolEvent) -> None:
        """Apply one event."""
        match event:
            case JobJoined():
                thread = LearningThread(event.id, event.time, event.deadline, event.threshold)
                self.members[event.id] = Member(
                    thread, event.settings, event.rate, event.memory_bytes
                )
            case JobRejected():
                self.gone.add(event.id)
            case QuantumTrained():
                self._add_quantum(event)
            case JobLeft():
                # A job whose deadline passed before it could join was never a member.
                self.members.pop(event.id, None)
                self.gone.add(event.id)
                self.quanta = [q for q in self.quanta if not self.members.keys().isdisjoint(q.jobs)]
            case JobNoted():
                pass

    def quanta_of(self, job: str) -> list[tuple[int, float]]:
        """Return batches and mean loss of each quantum in which a member trained."""
        rows = [
            (quantum.batches[place], quantum.losses[place])
            for quantum in self.quanta
            if job in quantum.jobs
            for place in [quantum.jobs.index(job)]
        ]
        return [(batches, loss) for batches, loss in rows if batches > 0]

    def _add_quantum(self, quantum: QuantumTrained) -> None:
        self.last, self.moment = quantum.time, quantum.moment
        self.quanta.append(quantum)
        for name, batches, loss in zip(quantum.jobs, quantum.batches, quantum.losses, strict=True):
            if batches:
                self.members[name].add(batches, loss)
