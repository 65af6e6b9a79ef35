"""Restores the model of a zone from its newest snapshot and the events after it."""

from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from auctune.domain import InputError
from auctune.service.storage.event_log import EventLog, EventRow
from auctune.service.storage.events import EventType, ZoneEvent
from auctune.service.storage.snapshots import Snapshots
from auctune.service.zones.core.events import VERSION
from auctune.service.zones.core.state import ZoneModel

M = TypeVar("M", bound=ZoneModel[Any, Any])


def replay_until(
    zone: str, empty: Callable[[], M], log: EventLog, snapshots: Snapshots, until: int | None = None
) -> tuple[M, int]:
    """Return the model of a zone after its events, and how many of them were applied.

    The newest readable snapshot up to event `until` is loaded first.
    """
    snapshot = snapshots.load_latest(zone, lambda body: decode_snapshot(empty, body), until=until)
    model, count = empty() if snapshot is None else snapshot.state, 0
    for event in map(read_event, log.read_zone(zone, model.seq, until)):
        model.apply(event)
        count += 1
    return model, count


def decode_snapshot(empty: Callable[[], M], body: bytes) -> M:
    """Return the model of a snapshot.

    Raises:
        ValueError: if it is of an older release or of other settings; the log holds all of it.
    """
    model = empty()
    try:
        model.restore(body)
    except (InputError, KeyError, TypeError) as error:
        raise ValueError(str(error)) from error
    return model


def created_event(zone: str, log: EventLog) -> ZoneEvent | None:
    """Return the first event of a zone, or None if it was never created."""
    for row in log.read_zone(zone, page=1):
        event = read_event(row)
        assert event.type == EventType.ZONE_CREATED
        version = event.body.get("version")
        if version != VERSION:
            expected = f"version {VERSION}, as this release writes it; start with a new data folder"
            raise InputError(f"zone {zone}: log", f"is of version {version}", expected)
        return event
    return None


def read_event(row: EventRow) -> ZoneEvent:
    """Decode an event of the log."""
    body = orjson.loads(row.body)
    return ZoneEvent(row.seq, row.zone, row.slot, row.at, row.type, row.job, body)
