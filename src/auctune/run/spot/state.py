"""What a run has come to: a fold over its journal.

| event | says |
| --- | --- |
| begun {version, job, training, policy, ...} | that the run exists, and of what |
| slot {time, observation, allocation, paid} | what is held in a slot that begins, and its price |
| missed {time, observation} | that a slot passed without a process of the job; nothing was held |
| taken_back {time, count} | that spot instances were taken away within the slot |
| died {time, instance} | that a worker died of something else |
| saved {time, rows} | that a checkpoint is written next |
| slot_done {time, rows, lost, trained} | the end of a slot: rows trained in all, share of it that \
was lost, and steps, tokens and losses |
| ending {time} | that the deadline has come, and what is left runs on demand |
| held {time, since} | that the ending's instances were held since then, where time goes on \
whoever is there |
| ended {time, finish, state, note} | that all is done, and when the last row was trained |

Times are slots since the job began. A slot is paid by its event, once, whatever happens in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from auctune.run.event_log import EventRecord
from auctune.run.spot.records import read_allocation, read_observation
from auctune.spot.policy import IDLE, SpotAllocation, SpotObservation

VERSION = 1


@dataclass
class SlotRecord:
    """A slot that was begun.

    Attributes:
        observation: what was known when it began.
        allocation: what was held.
        paid: for the whole of it.
        taken_back: spot instances that were taken away within it.
        rows: trained in all at its end; none: it goes on.
        lost: share of the held instances' time in which they were not ready to train; none where
            it goes on, was taken up again, nothing was held, or the clock is not a real one.
        is_missed: no process of the job ran: it passed, whatever the policy would have held.
        trained: steps and tokens in all at its end, and the losses of its steps.
    """

    observation: SpotObservation
    allocation: SpotAllocation
    paid: float
    taken_back: int = 0
    rows: int | None = None
    lost: float | None = None
    is_missed: bool = False
    trained: dict[str, Any] = field(default_factory=dict)

    @property
    def left(self) -> SpotAllocation:
        """What is held of it, after all that was taken away."""
        return SpotAllocation(self.allocation.on_demand, self.allocation.spot - self.taken_back)


@dataclass
class SpotRunState:
    """All of a run that a resumed one must know.

    Attributes:
        begun: the first event.
        slots: those that were begun.
        time: of the last event.
        rows: trained in all, by what is on record.
        saving: rows of the checkpoint that the last event announces, and the time before that
            event; none: it announces none.
        ending: when the ending began; none: it has not.
        held: in the ending, from when to when instances were held; where it is not said piece by
            piece, from its beginning to its end.
        num_died: workers that died of something else than the market.
        ended: the last event, once all is done.
    """

    begun: dict[str, Any] = field(default_factory=dict)
    slots: list[SlotRecord] = field(default_factory=list)
    time: float = 0.0
    rows: int = 0
    saving: tuple[int, float] | None = None
    ending: float | None = None
    held: list[tuple[float, float]] = field(default_factory=list)
    num_died: int = 0
    ended: dict[str, Any] | None = None

    @classmethod
    def fold(cls, events: Iterable[EventRecord]) -> "SpotRunState":
        """The state after these events."""
        state = cls()
        for event in events:
            state.apply(event)
        return state

    @property
    def slot_cost(self) -> float:
        """Paid for slots so far."""
        return sum(record.paid for record in self.slots)

    @property
    def held_slots(self) -> float:
        """For how many slots the ending's instances were held, where that is said."""
        return sum(until - since for since, until in self.held)

    @property
    def current(self) -> SlotRecord | None:
        """The slot that goes on."""
        return self.slots[-1] if self.slots and self.slots[-1].rows is None else None

    @property
    def num_taken_back(self) -> int:
        """Spot instances taken away so far."""
        return sum(record.taken_back for record in self.slots)

    def last_before(self, slot: int) -> SpotAllocation:
        """What was held in the slot before one."""
        return self.slots[slot - 1].allocation if slot else IDLE

    def time_at(self, rows: int) -> float:
        """The last moment on record, for a run whose newest checkpoint has so many rows.

        The time in which a checkpoint's rows were trained counts if it is there, and only then.
        """
        if self.saving is not None and self.saving[0] > rows:
            return self.saving[1]
        return self.time

    def apply(self, event: EventRecord) -> None:
        """Take over one event."""
        kind = event["type"]
        self.saving = (event["rows"], self.time) if kind == "saved" else None
        self.rows = event.get("rows", self.rows)
        self.time = event.get("time", self.time)
        if kind == "begun":
            self.begun = event
        elif kind == "slot":
            observation = read_observation(event["observation"])
            allocation = read_allocation(event["allocation"])
            self.slots.append(SlotRecord(observation, allocation, event["paid"]))
        elif kind == "missed":
            observation = read_observation(event["observation"])
            record = SlotRecord(observation, IDLE, 0.0, rows=self.rows, is_missed=True)
            self.slots.append(record)
        elif kind == "held":
            self.held.append((event["since"], event["time"]))
        elif kind == "taken_back":
            self.slots[-1].taken_back += event["count"]
        elif kind == "died":
            self.num_died += 1
        elif kind == "slot_done":
            self.slots[-1].rows, self.slots[-1].lost = event["rows"], event["lost"]
            self.slots[-1].trained = event.get("trained", {})
        elif kind == "ending":
            self.ending = event["time"]
        elif kind == "ended":
            self.ended = event
        else:
            assert kind == "saved", kind
