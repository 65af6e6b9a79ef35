"""The event log as zones fold it and replays read it, and the numbers of its rows."""

import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import Engine, Row, Select, func, select

from auctune.domain import InputError
from auctune.service.storage.tables import entries, events, files

# Long reads would keep SQLite's log from being folded into its file.
_PAGE = 5000


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event as it is stored.

    Attributes:
        seq: its place in the log.
        zone: where it happened.
        slot: in which slot of the zone.
        at: when, unix time.
        kind: such as job.decided.
        job: the job it is of, if it is of one.
        body: JSON.
    """

    seq: int
    zone: str
    slot: int
    at: float
    kind: str
    job: str | None
    body: bytes


EVENT_COLUMNS: Select[*tuple[Any, ...]] = select(
    events.c.seq,
    events.c.zone,
    events.c.slot,
    events.c.at,
    events.c.kind,
    events.c.job,
    events.c.body,
    events.c.checksum,
)


class DamagedLogError(InputError):
    """An event is not as it was written."""


def checksum(
    seq: int, zone: str, slot: int, at: float, kind: str, job: str | None, body: bytes
) -> int:
    """Return the checksum of an event: CRC-32 over all that it says."""
    head = f"{seq}\n{zone}\n{slot}\n{float(at)!r}\n{kind}\n{job or ''}\n"
    return zlib.crc32(body, zlib.crc32(head.encode()))


def read_row(
    seq: int,
    zone: str,
    slot: int,
    at: float,
    kind: str,
    job: str | None,
    body: bytes,
    stored: int,
) -> EventRow:
    """Return an event from the columns of `EVENT_COLUMNS`.

    Raises:
        DamagedLogError: if it is not as it was written.
    """
    if checksum(seq, zone, slot, at, kind, job, body) != stored:
        raise DamagedLogError(
            f"event {seq} of zone {zone} ({kind})",
            "does not match its checksum: the database was altered or damaged",
            "the log as it was written; restore a backup (auctune db restore FILE)",
        )
    return EventRow(seq, zone, slot, at, kind, job, body)


class EventLog:
    """The events in a database, to read; safe for any number of threads.

    Args:
        reader: of the store.
    """

    def __init__(self, reader: Engine) -> None:
        self._reader = reader

    def read_zone(
        self, zone: str, after: int = 0, until: int | None = None, page: int = _PAGE
    ) -> Iterator[EventRow]:
        """Events of a zone, oldest first, read page by page as they are taken.

        Args:
            zone: its name.
            after: events after this number.
            until: up to this number, it included; to the newest if none is given.
            page: events read together; the database is not held between pages.
        """
        chosen = EVENT_COLUMNS.where(events.c.zone == zone).order_by(events.c.seq).limit(page)
        if until is not None:
            chosen = chosen.where(events.c.seq <= until)
        while True:
            rows = self._read(chosen.where(events.c.seq > after))
            yield from (read_row(*row) for row in rows)
            if len(rows) < page:
                return
            after = rows[-1].seq

    def read_job(self, job: str, after: int = 0, limit: int | None = None) -> tuple[EventRow, ...]:
        """Events of a job after a number, oldest first, at most `limit` of them."""
        chosen = (
            EVENT_COLUMNS.where(events.c.job == job, events.c.seq > after)
            .order_by(events.c.seq)
            .limit(limit)
        )
        return tuple(read_row(*row) for row in self._read(chosen))

    def last_seq(self, zone: str | None = None) -> int:
        """The number of the newest event, of a zone or of all; 0 if there is none."""
        newest = select(func.max(events.c.seq))
        if zone is not None:
            newest = newest.where(events.c.zone == zone)
        return self._read(newest)[0][0] or 0

    def zones(self) -> tuple[str, ...]:
        """Names of all zones, in the order in which they were opened."""
        first = func.min(events.c.seq)
        rows = self._read(select(events.c.zone).group_by(events.c.zone).order_by(first))
        return tuple(row[0] for row in rows)

    def first_seq(self, zone: str, slot: int) -> int | None:
        """The number of the first event of a zone that happened in a slot or later."""
        first = select(func.min(events.c.seq))
        found: int | None = self._read(first.where(events.c.zone == zone, events.c.slot >= slot))[
            0
        ][0]
        return found

    def count(self, zone: str, kind: str, after: int, until: int) -> int:
        """How many events of a kind a zone has after a number, and up to another one."""
        chosen = select(func.count()).where(
            events.c.zone == zone,
            events.c.kind == kind,
            events.c.seq > after,
            events.c.seq <= until,
        )
        return int(self._read(chosen)[0][0])

    def _read(self, chosen: Select[*tuple[Any, ...]]) -> list[Row[*tuple[Any, ...]]]:
        with self._reader.connect() as connection:
            return list(connection.execute(chosen).all())


# Sequence numbers of events, entries and files: they rise and are never reused.


class SequenceNumbers:
    """The numbers after `last`; for any number of threads."""

    def __init__(self, last: int) -> None:
        self._next = last + 1
        self._lock = threading.Lock()

    @classmethod
    def of(cls, reader: Engine) -> Self:
        """The numbers after the greatest one that is stored."""
        with reader.connect() as connection:
            stored = [
                connection.execute(select(func.max(column))).scalar_one() or 0
                for column in (events.c.seq, entries.c.id, files.c.seq)
            ]
        return cls(max(stored))

    def take(self, count: int = 1) -> int:
        """The first of `count` successive numbers."""
        assert count >= 1
        with self._lock:
            first = self._next
            self._next += count
        return first
