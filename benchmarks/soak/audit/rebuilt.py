"""Events folded from nothing: the rows, the entries and the prices that the service has."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import orjson

from auctune.service.event_writer import to_minor_units
from auctune.service.storage.events import EventType, ZoneEvent
from auctune.service.storage.read_model import JobReadModel
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.state import ZoneModel
from auctune.service.zones.kinds import KINDS as ZONE_KINDS
from soak.kind import SoakKind
from soak.log import Booked, Log
from soak.served import Served


class Rebuilt:
    """One zone, from an empty memory on.

    Args:
        kind: of the zone.
        events: all of it, oldest first.
        served: what its service says of it.
    """

    def __init__(self, kind: SoakKind, events: list[ZoneEvent], served: Served) -> None:
        self._kind = kind
        self._events = events
        self._opened = events[0].body
        self._served = served
        self.rows: dict[str, JobReadModel] = {}
        self.booked: list[Booked] = []

    def fold(self) -> Iterator[str]:
        """Take over all events; what is wrong on the way."""
        memory = self._kind.fresh(self._opened)
        table = self._served.prices.get(self._kind.zone)
        for event in self._events:
            if table is not None and _ends(event, table["first_slot"]):
                yield from self._check_prices(memory, table)
                table = None
            change = memory.apply(event)
            self.rows.update({row.id: row for row in change.rows})
            self.booked += [
                Booked(event.seq, event.job, one.account, to_minor_units(one.amount))
                for one in change.entries
            ]
            yield from self._kind.watch(memory, event)
        if table is not None:
            yield from self._check_prices(memory, table)

    def check(self, log: Log) -> Iterator[str]:
        """What it has come to, against what is stored and said."""
        stored = {name: story.row for name, story in log.stories.items()}
        for name, row in self.rows.items():
            found = stored.get(name)
            if found is None or _columns(found) != _columns(row):
                yield f"{name} is stored otherwise than rebuilt, in {_differences(found, row)}"
        yield from self._check_views()

    def _check_views(self) -> Iterator[str]:
        clock = SlotClock(self._opened["epoch"], self._opened["slot_seconds"], lambda: 0.0)
        views = ZONE_KINDS[self._opened["kind"]].projection
        for name, said in self._served.views.items():
            row = self.rows.get(name)
            if row is None:
                continue
            shown = views.market(row, clock)
            wrong = {
                key: (said["market"][key], value)
                for key, value in shown.items()
                if said["market"].get(key) != _plain(value)
            }
            if (
                wrong
                or said["status"] != row.status.value
                or said["result_files"] != row.body["files"]
            ):
                yield f"{name} is said to be {said['status']}, rebuilt {row.status.value}: {wrong}"

    def _check_prices(self, memory: ZoneModel[Any, Any], table: Mapping[str, Any]) -> Iterator[str]:
        for name, found in self._kind.prices(memory).items():
            if found != table[name]:
                yield f"{self._kind.zone}: {name} of slot {table['first_slot']} is not as rebuilt"


def check_entries(log: Log, rebuilt: list[Rebuilt]) -> Iterator[str]:
    """Whether the ledger is what all zones' events say, entry by entry."""
    found = sorted((one for zone in rebuilt for one in zone.booked), key=lambda one: one.seq)
    stored = sorted(log.booked, key=lambda one: one.seq)
    told, made = (
        {seq: list(part) for seq, part in groupby(all_, lambda one: one.seq)}
        for all_ in (stored, found)
    )
    for seq in told.keys() | made.keys():
        if told.get(seq) != made.get(seq):
            yield f"event {seq} is booked as {told.get(seq)}, rebuilt as {made.get(seq)}"


def _ends(event: ZoneEvent, slot: int) -> bool:
    """Whether a slot is over with an event."""
    return event.type == EventType.SLOT_STARTED and event.body["slot"] > slot


def _columns(row: JobReadModel) -> dict[str, Any]:
    """A row as it is stored, its body beside the rest."""
    columns = {name: getattr(row, name) for name in ("id", "zone", "seq", "owner", "created_at")}
    return {**columns, "status": row.status, **_plain(row.body)}


def _differences(stored: JobReadModel | None, rebuilt: JobReadModel) -> dict[str, Any]:
    """What is stored, and what is rebuilt, by field."""
    old, new = {} if stored is None else _columns(stored), _columns(rebuilt)
    return {name: (old.get(name), new[name]) for name in new if old.get(name) != new[name]}


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return orjson.loads(orjson.dumps(value))
