"""A time in which the same threads share a pool: its record, read as that of a bundle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auctune.run.event_log import EventRecord
from auctune.run.open_pool.state import OpenPoolState

Learned = Callable[[str], tuple[int, int]]
"""Rows and tokens that a thread has learned."""


@dataclass(frozen=True)
class TermRecord:
    """The journal of a bundle of those that are present; see `auctune.run.timeshare.state`.

    Attributes:
        names: of the threads of the bundle, in its order.
        events: `measured`, and each unit on record that one of them may have been in.
        write: puts a unit on record, with names.
        learned: asked for each thread of a unit.
    """

    names: Sequence[str]
    events: list[EventRecord]
    write: Callable[[EventRecord], None]
    learned: Learned

    def append(self, event: EventRecord) -> None:
        """Write a unit of the bundle."""
        learned = [list(self.learned(name)) for name in self.names]
        self.write({**event, "names": list(self.names), "learned": learned})
        self.events.append(event)


def bundle_events(state: OpenPoolState, names: Sequence[str]) -> list[EventRecord]:
    """What is on record of some members, as events of a bundle of them.

    In units in which one was not there it has no share, no batch and no loss, and its N is what it
    was before: allocators and estimators see that it did not learn.
    """
    members = [state.members[name] for name in names]
    rates = [member.rate for member in members]
    memory = [member.memory for member in members]
    events: list[EventRecord] = [{"type": "measured", "rates": list(rates), "memory": memory}]
    first = min((member.first for member in members), default=0)
    for unit in state.units[first:]:
        places = {name: place for place, name in enumerate(unit["names"])}
        found = [places.get(name) for name in names]
        if all(place is None for place in found):
            continue
        rates = [
            rate if place is None else unit["rates"][place]
            for rate, place in zip(rates, found, strict=True)
        ]
        kept = {"type": "unit", **{name: unit[name] for name in ("time", "moment", "span")}}
        for name, missing in (
            ("shares", 0.0),
            ("batches", 0),
            ("losses", float("nan")),
            ("seconds", 0.0),
        ):
            kept[name] = [missing if place is None else unit[name][place] for place in found]
        events.append({**kept, "rates": list(rates)})
    return events
