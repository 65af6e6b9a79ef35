"""A zone as it stood: its newest snapshot, and what the log says came after it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson
import structlog

from auctune.domain import Admission, EnergyForecast, InputError, RepeatedEnergy
from auctune.registry import build
from auctune.service.store.event_log import EventLog, EventRow
from auctune.service.store.snapshots import Snapshots
from auctune.service.zones.auction.market_events import to_market
from auctune.service.zones.auction.records import read_cluster
from auctune.service.zones.auction.snapshot import load_zone
from auctune.service.zones.auction.state import Change, ZoneState
from auctune.service.zones.event import Kind, ZoneEvent

_log = structlog.get_logger(__name__)

Fresh = Callable[[], tuple[ZoneState, Admission]]
"""Makes an empty state and a mechanism over an empty cluster."""


def restart(
    zone: str, fresh: Fresh, log: EventLog, snapshots: Snapshots
) -> tuple[ZoneState, Admission]:
    """State and mechanism after all events of the log."""

    def read(body: bytes) -> tuple[ZoneState, Admission]:
        state, mechanism = fresh()
        try:
            load_zone(body, state, mechanism)
        except (InputError, KeyError, TypeError) as error:
            # An older release's, or one of other settings: the log says it all.
            raise ValueError(str(error)) from error
        return state, mechanism

    found = snapshots.newest(zone, read)
    state, mechanism = fresh() if found is None else found.state
    count = 0
    for event in map(read_event, log.of_zone(zone, after=state.seq)):
        fold(event, state, mechanism)
        count += 1
    _log.info("zone restarted", zone=zone, seq=state.seq, folded=count, snapshot=found is not None)
    return state, mechanism


def fresh_zone(
    opened: Mapping[str, Any], energy: EnergyForecast | None = None
) -> tuple[ZoneState, Admission]:
    """A zone of which nothing is sold, as the event with which it opened says.

    Args:
        opened: the event's body.
        energy: what slots cost that are on no record yet; none: as the first window, again.
    """
    cluster = read_cluster(opened["cluster"])
    forecast = RepeatedEnergy(cluster) if energy is None else energy
    return ZoneState(cluster), build(
        opened["mechanism"], cluster, opened["settings"], energy=forecast
    )


def fold(event: ZoneEvent, state: ZoneState, mechanism: Admission) -> Change:
    """Apply one event to both; what it changes for readers."""
    told = to_market(event, state)
    if told is not None:
        mechanism.apply(told)
    return state.apply(event)


def opening_of(zone: str, log: EventLog) -> ZoneEvent | None:
    """The event with which a zone began; none if it never did."""
    events: Iterator[EventRow] = log.of_zone(zone, page=1)
    for row in events:
        event = read_event(row)
        assert event.kind is Kind.ZONE_OPENED
        return event
    return None


def read_event(row: EventRow) -> ZoneEvent:
    """An event from the database."""
    body = orjson.loads(row.body)
    return ZoneEvent(row.seq, row.zone, row.slot, row.at, Kind(row.kind), row.job, body)
