"""The event log: its events, their versions, and reading them for zones and replays.

Events are append-only, so a new format does not rewrite them: each names the version that it was
written in, and reading takes its body through one step for each version since. To change the
format, raise the version, add the step from the version before, and leave the earlier steps as they
are; record a log of the version before, if `tests/data/recorded_logs` has none. Types of events do
not change. Bodies of one type, and states, differ between kinds of zones: a step recognizes what it
changes by its fields. Rows of jobs have no version: a migration of the tables changes them.

A service records its version in the table `meta` before it writes an event, so that a release that
cannot read some events refuses the whole log, however many of them a snapshot stands for.
"""

import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

import orjson
from sqlalchemy import Connection, Engine, Row, Select, func, select

from auctune.domain import InputError
from auctune.service.storage.tables import NUMBERS, events, meta

Record = dict[str, Any]


class EventType(StrEnum):
    """Types of events that all kinds of zones have in common."""

    ZONE_CREATED = "zone.created"
    """Body: version, kind, epoch, slot_seconds, and the settings of the kind."""
    SLOT_STARTED = "slot.started"
    RECEIVED = "job.received"
    DECIDED = "job.decided"
    TRAINED = "job.trained"
    METERED = "job.metered"
    PAUSED = "job.paused"
    RESUMED = "job.resumed"
    CANCELLED = "job.cancelled"
    FINISHED = "job.finished"
    FAILED = "job.failed"
    NOTE_ADDED = "job.note_added"
    OUT_OF_MEMORY = "job.out_of_memory"
    TOKENS_USED = "tokens.used"
    """About no job: the charge of a request for answers."""
    STORAGE_USED = "storage.used"
    """About no job: the charge of a user's stored files."""


OLDEST_VERSION = 11
VERSION = 16
"""Version of the log: of the bodies of events, and of how prices are learned."""


@dataclass(frozen=True, slots=True)
class ZoneEvent:
    """An event as it is recorded.

    Attributes:
        seq: number in the whole log, increasing.
        slot: in which it was recorded.
        type: an `EventType`, or one of the kind of zone.
        job: id of the job that it is about, or None.
        body: plain JSON values: the fields of an `EventData`.
        version: of the log when it was written; its body is as this version has it.
    """

    seq: int
    zone: str
    slot: int
    at: float
    type: str
    job: str | None
    body: Record
    version: int = VERSION


def job_of(event: ZoneEvent) -> str:
    """Return the id of the job of an event that is about one."""
    assert event.job is not None
    return event.job


Upcast = Callable[[Record], Record]


def _charge_without_fraction(body: Record) -> Record:
    return {"carried": None, **body}


def _estimate_of_first_rule(body: Record) -> Record:
    inputs = body.get("estimate_inputs")
    # Of a rented job; others' inputs have no pace.
    if inputs is None or "speeds" not in inputs:
        return body
    return {**body, "estimate_inputs": {**inputs, "estimator": 1}}


def _largest_price_of_exponential(body: Record) -> Record:
    if body.get("mechanism") != "pdftsp":
        return body
    settings: Record = body["settings"]
    if "aggregate" in settings:
        return body
    if settings.get("pricing") != "exponential" and not _RANGES & settings.keys():
        return body
    return {**body, "settings": {**settings, "aggregate": "max"}}


def _update_called_lesson(body: Record) -> Record:
    return {"update" if name == "lesson" else name: value for name, value in body.items()}


# Settings that say `pricing=exponential` by themselves.
_RANGES = {"compute_low", "compute_high", "memory_low", "memory_high"}

EVENT_UPCASTS: Mapping[int, Mapping[str, Upcast]] = {
    11: {EventType.TOKENS_USED: _charge_without_fraction},
    # Since then runs of rented jobs are in the log; a zone imports those that were in folders.
    12: {},
    # Since then sizes of data have squares of row lengths, and estimates may have a cap: a release
    # that does not know them must not read them. And learned prices no longer depend on how a
    # processor rounds: `auctune replay` learns again those since then.
    13: {},
    # Since then storage is charged, by events of a type that earlier releases do not know.
    14: {},
    # Since then estimates of rented jobs name their rule, so that a replay lets those of another
    # one stand, and chains of their forecasts have a worst market; exponential prices are summed by
    # cell where nothing else is said. A lesson is called an update: version 16, in which it was one
    # for some hours, was never released.
    15: {
        EventType.DECIDED: _estimate_of_first_rule,
        EventType.ZONE_CREATED: _largest_price_of_exponential,
        "prices.updated": _update_called_lesson,
    },
}
"""By version, and by the type of events whose body changed: from that version to the next."""


def upcast_event(version: int, type_: str, body: bytes) -> bytes:
    """Return the body of an event as this version has it."""
    for one in range(version, VERSION):
        step = EVENT_UPCASTS[one].get(type_)
        if step is not None:
            body = orjson.dumps(step(orjson.loads(body)))
    return body


def check_version(place: str, version: int) -> None:
    """Refuse a log that this release cannot read."""
    found = f"is of version {version}"
    if version > VERSION:
        expected = f"at most version {VERSION}: a newer release of auctune wrote it"
        raise InputError(place, found, expected)
    if version < OLDEST_VERSION:
        expected = f"version {OLDEST_VERSION} or newer; start with a new data folder"
        raise InputError(place, found, expected)


NAME = "log_version"
"""Name of the newest version in the table `meta`; migrations write the first one."""


def log_versions(connection: Connection) -> tuple[int, int]:
    """Return the version of the oldest event, and the newest version of any."""
    with connection.begin():
        newest = int(
            connection.execute(select(meta.c.value).where(meta.c.name == NAME)).scalar_one()
        )
        first = select(events.c.version).order_by(events.c.seq).limit(1)
        oldest = connection.execute(first).scalar()
    return (newest if oldest is None else oldest), newest


def check_log(connection: Connection, place: str) -> None:
    """Refuse a log with events that this release cannot read."""
    for version in log_versions(connection):
        check_version(f"{place}: log", version)


def record_version(connection: Connection) -> None:
    """Record that events of this version are written from now on."""
    if log_versions(connection)[1] != VERSION:
        with connection.begin():
            connection.execute(meta.update().where(meta.c.name == NAME).values(value=str(VERSION)))


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
    version: int = VERSION


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
    body = upcast_event(row.version, event.type, event.body)
    return replace(event, body=body, version=row.version)


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
