"""What a pool has come to: a fold over its journal.

| event | says |
| --- | --- |
| begun {version, allocator} | that the pool exists |
| joined {id, time, deadline, threshold, lasting, rate, memory, seconds} | that a thread may learn from unit `time` on; its N, its bytes, and how long the pool took to load it |
| refused {id, place, found, expected} | that a thread that was wanted cannot be one |
| rested {id}, roused {id} | that it has no share for a while, and that it has again |
| unit {time, moment, span, names, shares, batches, losses, seconds, rates, learned} | a unit that was trained; arrays by the order of names |
| left {id, how, why, best} | that it is gone, what it has learned being in its place |
| noted {id, text} | what its owner should know |

An event's number is its place in the journal, from 1 on. Times are units. `learned` holds rows and
tokens so far; `best` {batches, loss} is of the unit with the least loss, none before the first.
"""  # noqa: E501 (a table's row cannot be broken)

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from auctune.run.event_log import EventRecord
from auctune.timeshare.thread import LearningThread

VERSION = 2


@dataclass
class Member:
    """A thread of the pool.

    Attributes:
        learning: as allocators see it.
        lasting: what it trains.
        rate: N when it joined.
        memory: bytes while it trains.
        first: number of the first unit, of those that the state has, that it may be in.
        is_resting: whether it has no share for now.
        batches: learned.
        best: batches and loss of the unit with the least loss; none before the first.
        is_done: whether its threshold was reached.
    """

    learning: LearningThread
    lasting: dict[str, Any]
    rate: float
    memory: int
    first: int
    is_resting: bool = False
    batches: int = 0
    best: tuple[int, float] | None = None
    is_done: bool = False

    def learn(self, batches: int, loss: float) -> bool:
        """Take in a unit in which it learned; whether it was its best."""
        self.batches += batches
        is_best = math.isfinite(loss) and (self.best is None or loss < self.best[1])
        if is_best:
            self.best = (self.batches, loss)
        self.is_done |= loss <= self.learning.threshold
        return is_best


@dataclass
class OpenPoolState:
    """Where a pool stands.

    Attributes:
        members: threads of the pool, by id, in the order in which they joined.
        gone: ids of those that left or were refused.
        units: events of those units that members of now may have been in.
        last: the newest unit that was trained; -1 before the first.
        moment: when it had been trained, in units.
    """

    members: dict[str, Member] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    units: list[EventRecord] = field(default_factory=list)
    last: int = -1
    moment: float = 0.0

    @classmethod
    def fold(cls, events: Iterable[EventRecord]) -> "OpenPoolState":
        """The state after these events."""
        state = cls()
        for event in events:
            state.apply(event)
        return state

    @property
    def present(self) -> tuple[str, ...]:
        """Ids of those that share the next unit."""
        return tuple(name for name, one in self.members.items() if not one.is_resting)

    def apply(self, event: EventRecord) -> None:
        """Take over one event."""
        kind = event["type"]
        if kind == "joined":
            self._join(event)
        elif kind == "refused":
            self.gone.add(event["id"])
        elif kind in ("rested", "roused"):
            self.members[event["id"]].is_resting = kind == "rested"
        elif kind == "unit":
            self._learn(event)
        elif kind == "left":
            self._leave(event["id"])
        else:
            assert kind in ("begun", "noted"), kind

    def units_of(self, thread: str) -> list[tuple[int, float]]:
        """Batches and mean loss of each unit in which a member learned."""
        found = []
        for event in self.units[self.members[thread].first :]:
            if thread in event["names"]:
                place = event["names"].index(thread)
                if event["batches"][place] > 0:
                    found.append((event["batches"][place], event["losses"][place]))
        return found

    def _join(self, event: EventRecord) -> None:
        learning = LearningThread(event["id"], event["time"], event["deadline"], event["threshold"])
        self.members[learning.id] = Member(
            learning, event["lasting"], event["rate"], event["memory"], len(self.units)
        )

    def _learn(self, event: EventRecord) -> None:
        self.last, self.moment = event["time"], event["moment"]
        self.units.append(event)
        for name, batches, loss in zip(
            event["names"], event["batches"], event["losses"], strict=True
        ):
            if batches:
                self.members[name].learn(batches, loss)

    def _leave(self, thread: str) -> None:
        # One whose time was over before it could join was never there.
        self.members.pop(thread, None)
        self.gone.add(thread)
        # Nobody who is there now was in a unit before the first of all members.
        first = min((one.first for one in self.members.values()), default=len(self.units))
        del self.units[:first]
        for one in self.members.values():
            one.first -= first
