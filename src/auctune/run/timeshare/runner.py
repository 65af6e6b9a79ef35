"""The run itself, unit by unit."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.run.event_log import EventRecord
from auctune.run.timeshare.failures import named_failures
from auctune.run.timeshare.foresight import Foresight
from auctune.run.timeshare.listener import PoolListener
from auctune.run.timeshare.order import PoolOrder
from auctune.run.timeshare.pace import Pace, Unit
from auctune.run.timeshare.pool import Pool
from auctune.run.timeshare.state import PoolState, UnitRecord, unit_event
from auctune.timeshare.allocator import InfeasibleSharesError
from auctune.train.preemptible import PreemptibleJob, StepTooLongError

# A thread that is slower than its N says ends its turn after this many times its share.
TURN_SLACK = 1.5


class UnitLog(Protocol):
    """Where units are put on record: a journal, or the part of one that is of these threads."""

    @property
    def events(self) -> Sequence[EventRecord]:
        """All so far, oldest first."""
        ...

    def append(self, event: EventRecord) -> None:
        """Write an event; when this returns, it is on disk."""
        ...


class Keeper(Protocol):
    """Writes checkpoints of threads, by their places in the bundle."""

    def save_if_due(self, thread: int) -> None:
        """Write a thread's checkpoint if it has learned and the last one is old."""
        ...

    def save(self, thread: int) -> None:
        """Write a thread's checkpoint if it has learned since the last one; not suspended."""
        ...


@dataclass(frozen=True)
class Parts:
    """What a runner works with.

    Attributes:
        order: what is run.
        threads: brought to where the state says.
        state: a fold over the journal, kept up with it.
        journal, pool, keeping, pace: of the run.
        listener: told of everything.
        finished: told of a thread that is done, while it is on the device.
        now: seconds by a clock that only goes forward.
    """

    order: PoolOrder
    threads: Sequence[PreemptibleJob]
    state: PoolState
    journal: UnitLog
    pool: Pool
    keeping: Keeper
    pace: Pace
    listener: PoolListener
    finished: Callable[[int], None]
    now: Callable[[], float] = time.perf_counter


class Runner:
    """Runs what is left of a bundle.

    Attributes:
        too_slow: places of threads whose batch was stopped in the last unit, and why; they learn
            nothing any more, and whoever runs the pool sends them off.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts, self._state = parts, parts.state
        self.too_slow: dict[int, str] = {}
        self._names = [thread.id for thread in parts.order.learning]
        self._allocator = parts.order.allocator.start(parts.order.learning)
        self._foresight = Foresight(parts.order.learning, parts.order.estimator)

    def run(self) -> None:
        """To the end: all threads are done or past their deadlines."""
        self.begin()
        while self.run_next():
            pass

    def begin(self) -> None:
        """Take up what is on record."""
        self._look_back()
        self._parts.pace.start(self._state.moment)

    def run_next(self) -> bool:
        """The next unit; false, and nothing happened, if nobody can learn in it or later."""
        if self._state.is_over(self._state.next_time):
            return False
        unit = self._parts.pace.next_unit(self._state.next_time)
        if self._state.is_over(unit.time):
            return False
        self._run_unit(unit)
        return True

    def _look_back(self) -> None:
        """Show the allocator of a run that goes on what it has seen before."""
        seen = PoolState(self._parts.order.learning)
        for event in self._parts.journal.events:
            if event["type"] == "unit":
                self._allocator.allocate(seen.observe(event["time"]))
            seen.apply(event)
            if event["type"] == "unit":
                self._foresight.learn(seen, seen.units[-1])

    def _run_unit(self, unit: Unit) -> None:
        parts, state = self._parts, self._state
        shares = self._allocator.allocate(state.observe(unit.time)).eta
        self._check(unit.time, shares)
        unit = self._less_switching(unit, shares)
        due = parts.pace.room(unit, state.due(shares, unit.span), state.rates)
        batches, losses, seconds = self._train(unit, due)
        is_new = state.samples == 0
        rates = parts.pace.rates(state.rates, batches.astype(np.float64), seconds, is_new)
        moment = parts.pace.moment()
        record = UnitRecord(unit.time, moment, unit.span, shares, batches, losses, seconds)
        was_done = state.done.copy()
        event = unit_event(record, rates)
        parts.journal.append(event)
        state.apply(event)
        self._foresight.learn(state, record)
        self._finish(np.flatnonzero(state.done & ~was_done))
        for thread in np.flatnonzero(batches):
            if parts.pool.is_there(int(thread)):
                parts.keeping.save_if_due(int(thread))
        parts.listener.unit_done(record, self._foresight.views(state, record))

    def _finish(self, threads: Ints) -> None:
        """Threads that are done leave the device for good."""
        for thread in threads.tolist():
            self._parts.pool.enter(thread, ())
            self._parts.keeping.save(thread)
            self._parts.finished(thread)
            self._parts.pool.suspend(thread)

    def _train(self, unit: Unit, due: Floats) -> tuple[Ints, Floats, Floats]:
        """Turns of all threads that are due some batches: trained, mean losses, seconds."""
        parts = self._parts
        # A share that is meant to buy a whole batch misses it by rounding.
        wanted = np.floor(due + 1e-9).astype(np.int64)
        batches = np.zeros(len(wanted), dtype=np.int64)
        sums, seconds = np.zeros(len(wanted)), np.zeros(len(wanted))
        # Who was owed most goes first, so that nobody is always the one for whom time ran out.
        owed = self._state.credit / self._state.rates
        turns = sorted(np.flatnonzero(wanted).tolist(), key=lambda thread: -owed[thread])
        turns = parts.pool.order(turns)
        for place, thread in enumerate(turns):
            parts.pool.enter(thread, turns[place + 1 :])
            # Now, and not when it leaves: no checkpoint may be ahead of the journal.
            parts.keeping.save_if_due(thread)
            if seconds.any() and parts.pace.is_over(unit):
                break
            begun = parts.now()
            most_seconds = self._turn_seconds(due[thread] / self._state.rates[thread])
            # One batch at a time: a unit, and a turn, is overrun by one at most.
            while batches[thread] < wanted[thread]:
                is_late = parts.pace.is_over(unit) or parts.now() - begun > most_seconds
                if batches[thread] and is_late:
                    break
                try:
                    with named_failures(self._names[thread], f"in unit {unit.time}"):
                        sums[thread] += parts.threads[thread].step(1)
                except StepTooLongError as error:
                    self.too_slow[thread] = str(error)
                    break
                batches[thread] += 1
            seconds[thread] = parts.now() - begun
        losses = np.full(len(wanted), np.nan)
        np.divide(sums, batches, out=losses, where=batches > 0)
        return batches, losses, seconds

    def _turn_seconds(self, units: float) -> float:
        """How long a turn may last that should take so many units."""
        unit_seconds = self._parts.order.unit_seconds
        return np.inf if unit_seconds is None else TURN_SLACK * units * unit_seconds

    def _less_switching(self, unit: Unit, shares: Floats) -> Unit:
        """The time of a unit that is left to train in, once threads have changed places."""
        if self._parts.order.unit_seconds is None:
            return unit
        cost = self._parts.pool.expected_seconds(np.flatnonzero(shares).tolist())
        return Unit(unit.time, max(0.0, unit.span - cost / self._parts.order.unit_seconds))

    def _check(self, time: int, shares: Floats) -> None:
        state = self._state
        bundle = state.bundle
        active = (bundle.start <= time) & (bundle.deadline > time) & ~state.done
        if shares.shape != active.shape or shares[~active].any():
            name = self._parts.order.allocator.name
            raise InfeasibleSharesError(
                f"unit {time}: {name} gives shares to threads that are not active"
            )
