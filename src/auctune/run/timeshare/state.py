"""What a run has come to: a fold over its journal.

| event | says |
| --- | --- |
| begun {version, allocator, threads} | that the run exists, and of what |
| measured {rates, memory, threads} | N and bytes of each thread before the first unit |
| unit {time, moment, span, shares, batches, losses, rates, seconds} | a unit that was trained |
| noted {text} | what an operator should know |
| ended {moment, switching, most_bytes} | that all is done |

A unit is on record once it has been trained. One that was killed on the way is trained again from
the checkpoints, which hold exactly what those before it made.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.run.event_log import EventRecord
from auctune.timeshare.allocator import Observation
from auctune.timeshare.thread import LearningThread, bundle_arrays

VERSION = 1

# Batches that a thread may always be owed: one of a small share must get to a whole one.
MOST_OWED = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class UnitRecord:
    """A unit of time that was trained.

    Attributes:
        time: tau.
        moment: when it had been trained, in units since the run began.
        span: how much of it there was to train in.
        shares: [k] eta.
        batches: [k] trained.
        losses: [k] means over these; NaN where there are none.
        seconds: [k] that training took.
    """

    time: int
    moment: float
    span: float
    shares: Floats
    batches: Ints
    losses: Floats
    seconds: Floats


@dataclass
class PoolState:
    """Where all threads of a run stand.

    Attributes:
        begun: the first event.
        memory: bytes of each thread while it trains; empty before they are measured.
        rates: [k] N now.
        units: those that were trained.
        samples, received, credit: [k] batches learned, shares received, parts of a batch due.
        done, finish: [k] whether and by which unit's end the threshold was reached.
        notes: what an operator should know.
        ended: the last event, once all is done.
    """

    threads: Sequence[LearningThread]
    begun: dict[str, Any] = field(default_factory=dict)
    memory: list[int] = field(default_factory=list)
    units: list[UnitRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ended: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        num = len(self.threads)
        self.bundle = bundle_arrays(self.threads)
        self.rates = np.full(num, np.nan)
        self.samples, self.received, self.credit = np.zeros(num), np.zeros(num), np.zeros(num)
        self.done, self.finish = np.zeros(num, dtype=np.bool_), np.full(num, np.inf)

    @classmethod
    def fold(cls, threads: Sequence[LearningThread], events: Iterable[EventRecord]) -> "PoolState":
        """The state after these events."""
        state = cls(threads)
        for event in events:
            state.apply(event)
        return state

    @property
    def next_time(self) -> int:
        """The earliest unit that can begin now."""
        return self.units[-1].time + 1 if self.units else int(self.bundle.start.min())

    @property
    def moment(self) -> float:
        """When the last unit had been trained."""
        return self.units[-1].moment if self.units else float(self.next_time)

    def is_over(self, time: int) -> bool:
        """Whether nobody can learn in that unit or later."""
        return bool((self.done | (self.bundle.deadline <= time)).all())

    def observe(self, time: int) -> Observation:
        """What an allocator sees as a unit begins."""
        last = self.units[-1] if self.units else None
        num = len(self.threads)
        return Observation(
            time=time,
            samples=self.samples.copy(),
            batches_per_unit=self.rates.copy(),
            loss=np.full(num, np.nan) if last is None else last.losses.copy(),
            fresh=np.zeros(num, dtype=np.bool_) if last is None else last.batches > 0,
            done=self.done.copy(),
            received=self.received.copy(),
        )

    def due(self, shares: Floats, span: float) -> Floats:
        """[k] batches, with a fraction, that shares of a unit come to, and what was left before."""
        due: Floats = self.credit + shares * self.rates * span
        return due

    def apply(self, event: EventRecord) -> None:
        """Take over one event."""
        kind = event["type"]
        if kind == "begun":
            self.begun = event
        elif kind == "measured":
            self.rates = np.array(event["rates"], dtype=np.float64)
            self.memory = list(event["memory"])
        elif kind == "unit":
            self._apply_unit(read_unit(event), np.array(event["rates"], dtype=np.float64))
        elif kind == "noted":
            self.notes.append(event["text"])
        else:
            assert kind == "ended", kind
            self.ended = event

    def _apply_unit(self, unit: UnitRecord, rates: Floats) -> None:
        granted = unit.shares * self.rates * unit.span
        # What a unit had no time for is owed, but not for ever: the allocator may think otherwise.
        self.credit = np.clip(
            self.credit + granted - unit.batches, 0.0, np.maximum(granted, MOST_OWED)
        )
        self.samples += unit.batches
        self.received += unit.shares
        reached = (unit.batches > 0) & (unit.losses <= self.bundle.threshold) & ~self.done
        self.done |= reached
        self.finish[reached] = unit.time + 1.0
        self.rates = rates
        self.units.append(unit)


def unit_event(unit: UnitRecord, rates: Floats) -> EventRecord:
    """A unit for the journal, with N after it."""
    return {
        "type": "unit",
        "time": unit.time,
        "moment": unit.moment,
        "span": unit.span,
        "shares": unit.shares.tolist(),
        "batches": unit.batches.tolist(),
        "losses": unit.losses.tolist(),
        "seconds": unit.seconds.tolist(),
        "rates": rates.tolist(),
    }


def read_unit(event: EventRecord) -> UnitRecord:
    """The unit that `unit_event` wrote."""
    return UnitRecord(
        time=event["time"],
        moment=event["moment"],
        span=event["span"],
        shares=np.array(event["shares"], dtype=np.float64),
        batches=np.array(event["batches"], dtype=np.int64),
        losses=np.array(event["losses"], dtype=np.float64),
        seconds=np.array(event["seconds"], dtype=np.float64),
    )
