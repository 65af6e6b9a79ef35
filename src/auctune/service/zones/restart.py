"""A zone as it stood: its newest snapshot, and what the log says came after it."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import orjson
import structlog

from auctune.domain import InputError
from auctune.service.storage.event_log import EventLog, EventRow
from auctune.service.storage.snapshots import Snapshots
from auctune.service.zones.event import VERSION, Kind, ZoneEvent
from auctune.service.zones.memory import Memory

_log = structlog.get_logger(__name__)

M = TypeVar("M", bound=Memory)


def restart(zone: str, fresh: Callable[[], M], log: EventLog, snapshots: Snapshots) -> M:
    """A zone's memory after all events of the log.

    Args:
        zone: its name.
        fresh: makes a memory of nothing.
        log: of events.
        snapshots: of zones.
    """
    memory, count = rebuilt(zone, fresh, log, snapshots)
    _log.info("zone restarted", zone=zone, seq=memory.seq, folded=count)
    return memory


def rebuilt(
    zone: str, fresh: Callable[[], M], log: EventLog, snapshots: Snapshots, until: int | None = None
) -> tuple[M, int]:
    """The same after all events up to a number, and how many had to be folded for it."""
    found = snapshots.load_latest(zone, lambda body: loaded(fresh, body), until=until)
    memory, count = fresh() if found is None else found.state, 0
    for event in map(read_event, log.read_zone(zone, memory.seq, until)):
        memory.apply(event)
        count += 1
    return memory, count


def loaded(fresh: Callable[[], M], body: bytes) -> M:
    """A memory of a snapshot.

    Raises:
        ValueError: if it cannot be read: it is an older release's, or one of other settings.
    """
    memory = fresh()
    try:
        memory.load(body)
    except (InputError, KeyError, TypeError) as error:
        # The log says it all.
        raise ValueError(str(error)) from error
    return memory


def opening_of(zone: str, log: EventLog) -> ZoneEvent | None:
    """The event with which a zone began; none if it never did.

    Raises:
        InputError: if its log is of another version.
    """
    events: Iterator[EventRow] = log.read_zone(zone, page=1)
    for row in events:
        event = read_event(row)
        assert event.kind == Kind.ZONE_OPENED
        version = event.body.get("version")
        if version != VERSION:
            expected = f"version {VERSION}, which this release writes: begin with a new data folder"
            raise InputError(f"zone {zone}: log", f"is of version {version}", expected)
        return event
    return None


def read_event(row: EventRow) -> ZoneEvent:
    """An event from the database."""
    body = orjson.loads(row.body)
    return ZoneEvent(row.seq, row.zone, row.slot, row.at, row.kind, row.job, body)
