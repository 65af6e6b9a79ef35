"""Loads a zone: recorded settings, newest snapshot, and the events after it."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import orjson
import structlog

from auctune.domain import InputError
from auctune.service.storage.event_log import EventLog, EventRow
from auctune.service.storage.snapshots import Snapshots
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.events import VERSION, EventType, ZoneEvent
from auctune.service.zones.core.state import ZoneModel
from auctune.service.zones.core.zone import Zone

_log = structlog.get_logger(__name__)

M = TypeVar("M", bound=ZoneModel[Any, Any])


def restart(zone: str, fresh: Callable[[], M], log: EventLog, snapshots: Snapshots) -> M:
    """A zone's memory after all events of the log.

    Args:
        zone: its name.
        fresh: makes a memory of nothing.
        log: of events.
        snapshots: of zones.
    """
    memory, count = replay_until(zone, fresh, log, snapshots)
    _log.info("zone restarted", zone=zone, seq=memory.seq, folded=count)
    return memory


def replay_until(
    zone: str, fresh: Callable[[], M], log: EventLog, snapshots: Snapshots, until: int | None = None
) -> tuple[M, int]:
    """The same after all events up to a number, and how many had to be folded for it."""
    found = snapshots.load_latest(zone, lambda body: decode_snapshot(fresh, body), until=until)
    memory, count = fresh() if found is None else found.state, 0
    for event in map(read_event, log.read_zone(zone, memory.seq, until)):
        memory.apply(event)
        count += 1
    return memory, count


def decode_snapshot(fresh: Callable[[], M], body: bytes) -> M:
    """A memory of a snapshot.

    Raises:
        ValueError: if it cannot be read: it is an older release's, or one of other settings.
    """
    memory = fresh()
    try:
        memory.restore(body)
    except (InputError, KeyError, TypeError) as error:
        # The log says it all.
        raise ValueError(str(error)) from error
    return memory


def created_event(zone: str, log: EventLog) -> ZoneEvent | None:
    """The event with which a zone began; none if it never did.

    Raises:
        InputError: if its log is of another version.
    """
    events: Iterator[EventRow] = log.read_zone(zone, page=1)
    for row in events:
        event = read_event(row)
        assert event.kind == EventType.ZONE_OPENED
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


# Loading: recorded settings, model and actor.

Z = TypeVar("Z", bound=Zone[Any, Any])

Terms = Mapping[str, Any]
"""The body of the event with which a zone opens."""


class ZoneLoader:
    """Opens zones of one kind where their logs end.

    Args:
        dependencies: what all zones are opened with.

    Attributes:
        log: of events.
        snapshots: of zones.
    """

    def __init__(self, dependencies: ZoneDependencies) -> None:
        self._dependencies = dependencies
        self.log = EventLog(dependencies.store.reader)
        self.snapshots = Snapshots(dependencies.store.reader)

    def recorded_settings(
        self, zone: str, wanted: Terms, check: Callable[[Terms, Terms], None]
    ) -> Terms:
        """Those that a zone was opened with; of one that is new, those that are wanted.

        Args:
            zone: its name.
            wanted: by its settings as they are now.
            check: told what is wanted and what was; refuses what must not change.
        """
        opened = created_event(zone, self.log)
        if opened is None:
            return wanted
        check(wanted, opened.body)
        return opened.body

    async def restore(self, zone: str, fresh: Callable[[], M]) -> M:
        """What a zone remembers.

        Args:
            zone: its name.
            fresh: makes a memory of nothing.
        """
        self._dependencies.report(f"reading the log of zone {zone}", 0.0)
        return await asyncio.to_thread(lambda: restart(zone, fresh, self.log, self.snapshots))

    def start_actor(self, zone: Z, memory: ZoneModel[Any, Any], terms: Terms) -> ZoneActor[Z]:
        """The actor of a zone that is at its newest slot; one that is new opens with it."""
        if memory.seq == 0:
            zone.record(EventType.ZONE_OPENED, None, dict(terms))
        zone.begin_slots()
        return ZoneActor(zone, self._dependencies.recorder, self._dependencies.on_fatal_error)


def ensure_unchanged(zone: str, names: Iterable[str], wanted: Terms, opened: Terms) -> None:
    """What is sold, and how, cannot change while jobs stand on it.

    Args:
        zone: its name.
        names: of terms that must be as they were.
        wanted, opened: as of now, and as they were.

    Raises:
        InputError: naming the first that has changed.
    """
    for name in names:
        if wanted[name] != opened[name]:
            raise changed_setting_error(zone, name, wanted[name], opened[name])


def changed_setting_error(zone: str, name: str, now: object, before: object) -> InputError:
    """Of a term of a zone that must be as it was."""
    found = f"{now} where the zone was opened with {before}"
    return InputError(f"zone {zone}: {name}", found, "the same, or another zone")
