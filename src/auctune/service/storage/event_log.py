"""The event log: events as zones fold them and replays read them, and the sequence numbers."""

import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from sqlalchemy import Connection, Engine, Row, Select, func, select

from auctune.domain import InputError
from auctune.service.storage.tables import NUMBERS, events
from auctune.service.storage.upcasting import VERSION, check_version, upcast_event

# A longer read transaction would keep SQLite from moving its write-ahead log into the file.
_PAGE = 5000
_VERSION_WITHOUT_COLUMN = 11

Query = Select[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event of the log; `body` is JSON, as this version of the log has it. See `ZoneEvent`."""

    seq: int
    zone: str
    slot: int
    at: float
    type: str
    job: str | None
    body: bytes


EVENT_COLUMNS: Query = select(
    events.c.seq,
    events.c.zone,
    events.c.slot,
    events.c.at,
    events.c.type,
    events.c.job,
    events.c.body,
    events.c.version,
    events.c.checksum,
)
# The columns of an event before its version and its checksum.
_NUM_STORED = len(EVENT_COLUMNS.selected_columns) - 2


class DamagedLogError(InputError):
    """An event does not match its checksum."""


def checksum(
    seq: int,
    zone: str,
    slot: int,
    at: float,
    type: str,
    job: str | None,
    body: bytes,
    version: int,
) -> int:
    """Return the checksum of an event: CRC-32 over all of its columns.

    Only with new tables may it change: an older release would call the log damaged, not newer.
    """
    head = f"{seq}\n{zone}\n{slot}\n{float(at)!r}\n{type}\n{job or ''}\n"
    if version > _VERSION_WITHOUT_COLUMN:
        head += f"{version}\n"
    return zlib.crc32(body, zlib.crc32(head.encode()))


def read_row(row: Row[*tuple[Any, ...]]) -> EventRow:
    """Return an event from a row that begins with `EVENT_COLUMNS`, if it matches its checksum."""
    event = EventRow(*row[:_NUM_STORED])
    if row.checksum != checksum(*row[: _NUM_STORED + 1]):
        raise DamagedLogError(
            _place(event),
            "does not match its checksum: the database was altered or damaged",
            "the log as it was written; restore a backup (auctune db restore FILE)",
        )
    if row.version == VERSION:
        return event
    check_version(_place(event), row.version)
    return replace(event, body=upcast_event(row.version, event.type, event.body))


def _place(event: EventRow) -> str:
    return f"event {event.seq} of zone {event.zone} ({event.type})"


class EventLog:
    """The events of a database, read-only and thread-safe."""

    def __init__(self, reader: Engine) -> None:
        self._reader = reader

    def read_zone(
        self, zone: str, after: int = 0, until: int | None = None, page: int = _PAGE
    ) -> Iterator[EventRow]:
        """Yield the events of a zone after a sequence number, and up to one, oldest first.

        They are read in transactions of `page` events.
        """
        query = EVENT_COLUMNS.where(events.c.zone == zone).order_by(events.c.seq).limit(page)
        if until is not None:
            query = query.where(events.c.seq <= until)
        while True:
            rows = self._read(query.where(events.c.seq > after))
            yield from map(read_row, rows)
            if len(rows) < page:
                return
            after = rows[-1].seq

    def read_job(
        self, job: str, after: int = 0, limit: int | None = None, type_: str | None = None
    ) -> tuple[EventRow, ...]:
        """Return events of a job after a sequence number, oldest first, at most `limit`.

        `type_` is that of the events; None: any.
        """
        query = EVENT_COLUMNS.where(events.c.job == job, events.c.seq > after)
        if type_ is not None:
            query = query.where(events.c.type == type_)
        return tuple(map(read_row, self._read(query.order_by(events.c.seq).limit(limit))))

    def last_seq(self, zone: str | None = None) -> int:
        """Return the number of the newest event, of a zone or of all zones, or 0."""
        query = select(func.max(events.c.seq))
        if zone is not None:
            query = query.where(events.c.zone == zone)
        return self._read(query)[0][0] or 0

    def newest_time(self, zone: str) -> float:
        """Return the greatest time of a zone's newest events, in unix seconds, or 0.

        After a correction of the clock it may be that of an earlier event.
        """
        newest = (
            select(events.c.at)
            .where(events.c.zone == zone)
            .order_by(events.c.seq.desc())
            .limit(_PAGE)
            .subquery()
        )
        return float(self._read(select(func.max(newest.c.at)))[0][0] or 0.0)

    def zones(self) -> tuple[str, ...]:
        first = func.min(events.c.seq)
        rows = self._read(select(events.c.zone).group_by(events.c.zone).order_by(first))
        return tuple(row[0] for row in rows)

    def first_seq(self, zone: str, slot: int) -> int | None:
        """Return the number of a zone's first event in a slot or later, or None."""
        query = select(func.min(events.c.seq))
        found: int | None = self._read(query.where(events.c.zone == zone, events.c.slot >= slot))[
            0
        ][0]
        return found

    def count(self, zone: str, type_: str, after: int, until: int) -> int:
        """Return the number of a zone's events of a type, after one event and up to another."""
        query = select(func.count()).where(
            events.c.zone == zone,
            events.c.type == type_,
            events.c.seq > after,
            events.c.seq <= until,
        )
        return int(self._read(query)[0][0])

    def _read(self, query: Query) -> list[Row[*tuple[Any, ...]]]:
        with self._reader.connect() as connection:
            return list(connection.execute(query).all())


def last_number(connection: Connection) -> int:
    """Return the greatest number of an event, entry or file that is stored, or 0."""
    with connection.begin():
        return max(
            connection.execute(select(func.max(column))).scalar_one() or 0 for column in NUMBERS
        )


class SequenceNumbers:
    """Numbers of events, entries and files after `last`: they rise, and are never reused.

    Thread-safe.
    """

    def __init__(self, last: int) -> None:
        self.last = last
        self._next = last + 1
        self._lock = threading.Lock()

    @classmethod
    def after_stored(cls, reader: Engine) -> Self:
        """Return the numbers after the greatest one that is stored."""
        with reader.connect() as connection:
            return cls(last_number(connection))

    def take(self, count: int = 1) -> int:
        assert count >= 1
        with self._lock:
            first = self._next
            self._next += count
        return first
