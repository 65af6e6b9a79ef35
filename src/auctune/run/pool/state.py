"""State of a pool, folded from its log; and of the jobs that share it, as arrays."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np

from auctune.domain.checks import check_positive
from auctune.numerics.arrays import Floats, Ints
from auctune.run.pool.events import (
    JobJoined,
    JobLeft,
    JobPaused,
    JobRejected,
    JobResumed,
    PoolEvent,
    QuantumTrained,
)
from auctune.timeshare.allocator import Observation
from auctune.timeshare.thread import LearningThread, bundle_arrays

# Batches that a job may always carry over: one of a small share must get to a whole one.
MAX_CARRY_OVER = 2.0

_T = TypeVar("_T", int, float)


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

    def improves(self, batches: int, loss: float) -> bool:
        """Return whether a quantum that is not recorded yet is the best, and not the last."""
        best_loss = math.inf if self.best is None else self.best[1]
        return batches > 0 and self.thread.threshold < loss < best_loss


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

    @classmethod
    def fold(cls, events: Iterable[PoolEvent]) -> "PoolState":
        """Return the state after these events."""
        state = cls()
        for event in events:
            state.apply(event)
        return state

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
            case JobPaused() | JobResumed():
                self.members[event.id].is_paused = isinstance(event, JobPaused)
            case QuantumTrained():
                self._add_quantum(event)
            case JobLeft():
                # A job whose deadline passed before it could join was never a member.
                self.members.pop(event.id, None)
                self.gone.add(event.id)
                self.quanta = [q for q in self.quanta if not self.members.keys().isdisjoint(q.jobs)]
            case _:
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


class JobSetState:
    """Jobs that share a pool, as the arrays that allocators see.

    In a quantum in which one of them was not a member it has no share, no batch and no loss, and
    its rate stays: allocators and estimators see that it did not train.

    Args:
        members: the jobs.

    Attributes:
        names: ids of the jobs.
        bundle: what is fixed of them.
        rates: [k] estimates of batches per quantum.
        samples, received: [k] batches trained, shares received.
        carry_over: [k] batches, with a fraction, that are due from earlier quanta.
        done, finish: [k] whether and by which quantum's end the threshold was reached.
        last: newest quantum, or None.
        shares, batches, losses, seconds: [k] of the newest quantum.
        last_losses: [k] of the last quantum in which each trained.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        num = len(members)
        threads = [member.thread for member in members]
        self.names = [thread.id for thread in threads]
        self.bundle = bundle_arrays(threads)
        self.rates = np.array([member.rate for member in members], dtype=np.float64)
        self.samples, self.received, self.carry_over = np.zeros(num), np.zeros(num), np.zeros(num)
        self.done, self.finish = np.zeros(num, dtype=np.bool_), np.full(num, np.inf)
        self.shares, self.seconds = np.zeros(num), np.zeros(num)
        self.batches = np.zeros(num, dtype=np.int64)
        self.losses, self.last_losses = np.full(num, np.nan), np.full(num, np.nan)

    def is_over(self, time: int) -> bool:
        """Return whether no job can train in that quantum or later."""
        return bool((self.done | (self.bundle.deadline <= time)).all())

    def observe(self, time: int) -> Observation:
        """Return what an allocator sees as a quantum begins."""
        return Observation(
            time=time,
            samples=self.samples.copy(),
            batches_per_unit=self.rates.copy(),
            loss=self.losses.copy(),
            fresh=self.batches > 0,
            done=self.done.copy(),
            received=self.received.copy(),
        )

    def due(self, shares: Floats, span: float) -> Floats:
        """Return [k] batches, with a fraction, that shares of a quantum and the carry-over give."""
        due: Floats = self.carry_over + shares * self.rates * span
        return due

    def apply(self, quantum: QuantumTrained) -> Ints:
        """Apply a quantum; return the places of jobs that reached their thresholds in it."""
        places = {name: place for place, name in enumerate(quantum.jobs)}
        rows = [places.get(name) for name in self.names]
        self.shares = np.array(_column(quantum.shares, rows, 0.0))
        self.batches = np.array(_column(quantum.batches, rows, 0), dtype=np.int64)
        self.losses = np.array(_column(quantum.losses, rows, math.nan))
        self.seconds = np.array(_column(quantum.seconds, rows, 0.0))
        granted = self.shares * self.rates * quantum.span
        # Limited, as the allocator may change its mind on what a quantum had no time for.
        self.carry_over = np.clip(
            self.carry_over + granted - self.batches, 0.0, np.maximum(granted, MAX_CARRY_OVER)
        )
        self.samples += self.batches
        self.received += self.shares
        trained = self.batches > 0
        self.last_losses[trained] = self.losses[trained]
        reached = trained & (self.losses <= self.bundle.threshold) & ~self.done
        self.done |= reached
        self.finish[reached] = quantum.time + 1.0
        for index, row in enumerate(rows):
            if row is not None:
                self.rates[index] = quantum.rates[row]
        return np.flatnonzero(reached)


def _column(values: Sequence[_T], rows: Sequence[int | None], missing: _T) -> list[_T]:
    return [missing if row is None else values[row] for row in rows]
