"""State of a run: the fold of its event log.

| event | means |
| --- | --- |
| begun {version, job, training, policy, ...} | the run was created, with this identity |
| slot {time, observation, allocation, paid} | a slot began, with this allocation and price |
| slot_skipped {time, observation} | a slot passed without a process of the job; nothing was held |
| preempted {time, count} | spot instances were preempted within the slot |
| worker_crashed {time, instance} | a worker crashed |
| saved {time, rows} | a checkpoint is written next |
| slot_done {time, rows, overhead, paid, preempted, trained} | a slot ended: rows trained in all, \
share of its time lost to overhead, what was paid for it, instances lost in it, and steps, tokens \
and losses |
| overtime_started {time} | the deadline passed, and what is left runs on demand |
| overtime {time, since, rows, trained} | on-demand instances were held since then after the \
deadline, by a clock that runs while the run does not |
| ended {time, finish, state, note} | all is done, and when the last row was trained |

Times are slots since the job began. A slot is paid once, by its event, whatever happens in it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from pydantic_core import to_jsonable_python

from auctune.spot.account import HeldInstances, JobConstants
from auctune.spot.forecasts.forecast import Forecast, MarketChain
from auctune.spot.policy import IDLE, SpotAllocation, SpotObservation
from auctune.train.job import Progress

VERSION = 4

EventRecord = dict[str, Any]
"""An event as JSON values; its key `type` says which."""


class RunLog(Protocol):
    """Log of one run, in that of the zone that has the job."""

    @property
    def events(self) -> Sequence[EventRecord]:
        """All events so far, oldest first."""
        ...

    def append(self, event: EventRecord) -> None:
        """Record an event; when this returns, it is on disk."""
        ...


def to_record(value: SpotObservation | SpotAllocation) -> dict[str, Any]:
    """Return a value as JSON can hold it, without loss."""
    record: dict[str, Any] = to_jsonable_python(value, fallback=np.ndarray.tolist)
    return record


def read_observation(record: dict[str, Any]) -> SpotObservation:
    """Return the observation of a record."""
    forecast = record["forecast"]
    return SpotObservation(
        **{
            **record,
            "last": SpotAllocation(**record["last"]),
            "forecast": None if forecast is None else _read_forecast(forecast),
        }
    )


def _read_forecast(record: dict[str, Any]) -> Forecast:
    levels = np.array(record["levels"], dtype=np.float64)
    shape = (len(record["price"]), len(levels))
    chain = record["chain"]
    return Forecast(
        np.array(record["price"], dtype=np.float64),
        np.array(record["available"], dtype=np.int64),
        levels,
        np.array(record["price_quantiles"], dtype=np.float64).reshape(shape),
        np.array(record["available_quantiles"], dtype=np.int64).reshape(shape),
        None if chain is None else _read_chain(*chain),
    )


def _read_chain(
    price: list[float],
    available: list[int],
    transition: list[list[float]],
    present: int,
    worst: list[list[float]] | None = None,
) -> MarketChain:
    return MarketChain(
        np.array(price, dtype=np.float64),
        np.array(available, dtype=np.int64),
        np.array(transition, dtype=np.float64),
        present,
        None if worst is None else np.array(worst, dtype=np.float64),
    )


@dataclass
class SlotRecord:
    """A slot that began.

    Attributes:
        observation: what the policy saw.
        allocation: what it chose.
        paid: for the whole slot.
        preempted: spot instances lost within it.
        rows: trained in all at its end; None: it has not ended.
        overhead: share of the held instances' time in which they were not ready to train; None if
            the slot has not ended, was resumed, held nothing, or the clock is not a real one.
        is_skipped: no process of the job ran: the slot passed, whatever the policy would have held.
    """

    observation: SpotObservation
    allocation: SpotAllocation
    paid: float
    preempted: int = 0
    rows: int | None = None
    overhead: float | None = None
    is_skipped: bool = False

    @property
    def remaining(self) -> SpotAllocation:
        """What is held after all preemptions."""
        return SpotAllocation(self.allocation.on_demand, self.allocation.spot - self.preempted)


@dataclass
class SpotRunState:
    """What a resumed run must know.

    Attributes:
        begun: the first event.
        slots: those that began.
        time: of the last event.
        rows: trained in all, as recorded.
        pending_checkpoint: rows of the checkpoint that the last event announces, and the time
            before that event; None if it announces none.
        overtime_started: when the overtime began; None: it has not.
        overtime: intervals after the deadline in which instances were held, where the clock runs
            while the run does not; otherwise empty, and they are held to the end.
        num_crashed: workers that crashed.
        ended: the last event, once all is done.
    """

    begun: dict[str, Any] = field(default_factory=dict)
    slots: list[SlotRecord] = field(default_factory=list)
    time: float = 0.0
    rows: int = 0
    pending_checkpoint: tuple[int, float] | None = None
    overtime_started: float | None = None
    overtime: list[tuple[float, float]] = field(default_factory=list)
    num_crashed: int = 0
    ended: dict[str, Any] | None = None

    @classmethod
    def fold(cls, events: Iterable[EventRecord]) -> "SpotRunState":
        """Return the state after these events."""
        state = cls()
        for event in events:
            state.apply(event)
        return state

    @property
    def slot_cost(self) -> float:
        """Paid for slots so far."""
        return sum(record.paid for record in self.slots)

    @property
    def overtime_slots(self) -> float:
        """Recorded overtime, in slots."""
        return sum(end - start for start, end in self.overtime)

    @property
    def current(self) -> SlotRecord | None:
        """The slot that has begun and not ended."""
        return self.slots[-1] if self.slots and self.slots[-1].rows is None else None

    @property
    def num_preempted(self) -> int:
        """Spot instances preempted so far."""
        return sum(record.preempted for record in self.slots)

    def held_instances(self, terms: JobConstants) -> HeldInstances:
        """Return what is held at the end of the newest slot, by the account of the job."""
        held = HeldInstances(terms)
        for record in self.slots:
            held.run_slot(record.allocation)
            held.lose_spot(record.preempted)
        return held

    def time_at(self, rows: int) -> float:
        """Return the last recorded time, for a run whose newest checkpoint has `rows` rows.

        The time in which a checkpoint's rows were trained counts only if the checkpoint exists.
        """
        if self.pending_checkpoint is not None and self.pending_checkpoint[0] > rows:
            return self.pending_checkpoint[1]
        return self.time

    def apply(self, event: EventRecord) -> None:
        """Apply one event."""
        self.pending_checkpoint = None
        match event["type"]:
            case "begun":
                self.begun = event
            case "slot":
                observation = read_observation(event["observation"])
                allocation = SpotAllocation(**event["allocation"])
                self.slots.append(SlotRecord(observation, allocation, event["paid"]))
            case "slot_skipped":
                observation = read_observation(event["observation"])
                record = SlotRecord(observation, IDLE, 0.0, rows=self.rows, is_skipped=True)
                self.slots.append(record)
            case "preempted":
                self.slots[-1].preempted += event["count"]
            case "worker_crashed":
                self.num_crashed += 1
            case "saved":
                self.pending_checkpoint = (event["rows"], self.time)
            case "slot_done":
                last = self.slots[-1]
                last.rows, last.overhead = event["rows"], event["overhead"]
            case "overtime_started":
                self.overtime_started = event["time"]
            case "overtime":
                self.overtime.append((event["since"], event["time"]))
            case "ended":
                self.ended = event
            case kind:
                raise AssertionError(kind)
        self.rows = event.get("rows", self.rows)
        self.time = event.get("time", self.time)


@dataclass(frozen=True, slots=True)
class SlotStarted:
    """A slot was decided and paid, or is continued by a resumed run."""

    record: SlotRecord


@dataclass(frozen=True, slots=True)
class RowsTrained:
    """Rows were trained, or a resumed run continues with those of its checkpoint."""

    time: float
    num_workers: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class InstancesPreempted:
    """Spot instances were preempted."""

    time: float
    count: int


@dataclass(frozen=True, slots=True)
class SlotFinished:
    """A slot is over and its checkpoint is written."""

    record: SlotRecord


@dataclass(frozen=True, slots=True)
class OvertimeStarted:
    """The deadline passed before the work was done; the rest runs on demand."""

    time: float
    num_instances: int


@dataclass(frozen=True, slots=True)
class Warned:
    """Something happened that an operator should know."""

    text: str


@dataclass(frozen=True, slots=True)
class DataNoted:
    """Rows of the data are truncated or left out."""

    text: str


SpotEvent = (
    SlotStarted
    | RowsTrained
    | InstancesPreempted
    | SlotFinished
    | OvertimeStarted
    | Warned
    | DataNoted
)


OnEvent = Callable[[SpotEvent], None]


def ignore_event(event: SpotEvent) -> None:
    """Do nothing: the default subscriber of a run."""
