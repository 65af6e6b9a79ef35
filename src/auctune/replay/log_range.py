"""A period of a zone's log, of whatever kind, as what goes through it again reads it."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from auctune.domain import InputError
from auctune.service.config.zone import AUCTION
from auctune.service.storage.event_log import EventLog
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType, ZoneEvent
from auctune.service.zones.core.loader import created_event, read_event


class Period:
    """A period of a zone's log, which is read page by page, as often as it is gone through.

    What is added to the log after this was made is no part of it.

    Args:
        zone: its name.
        log: to read.
        begin: unix time; slots that begin before are no part of it; none: the zone's beginning.
        end: unix time; nor are slots that begin at it or after it; none: now.

    Attributes:
        zone: its name.
        kind: of the zone.
        opened: body of the event with which it opened.
        log: that is read.
        clock: its slots; tells no time.
        first_slot, last_slot: of the period; no last slot: the newest.
        until: number of the log's last event.

    Raises:
        InputError: if the log knows of no such zone.
    """

    def __init__(
        self, zone: str, log: EventLog, begin: float | None = None, end: float | None = None
    ) -> None:
        opened = created_event(zone, log)
        if opened is None:
            known = ", ".join(log.zones()) or "none"
            raise InputError("zone", f"the log knows of no {zone!r}", f"one of {known}")
        self.zone, self.log = zone, log
        self.opened: dict[str, Any] = opened.body
        # Zones that are older than kinds are auctions.
        self.kind: str = opened.body.get("kind", AUCTION)
        epoch, seconds = opened.body["epoch"], opened.body["slot_seconds"]
        self.clock = SlotClock(epoch, seconds, lambda: epoch)
        self.first_slot = 0 if begin is None else max(0, self.clock.first_slot_from(begin))
        self.last_slot = None if end is None else self.clock.first_slot_from(end) - 1
        self.until = log.last_seq(zone)

    @property
    def newest_slot(self) -> int:
        """The last slot of the period that is on record; before its first one: there is none."""
        (row,) = self.log.read_zone(self.zone, self.until - 1, self.until)
        begun = slot_of(read_event(row))
        return begun if self.last_slot is None else min(begun, self.last_slot)

    def events(self, after: int = 0) -> Iterator[ZoneEvent]:
        """Up to the period's end.

        Args:
            after: number of an event; those up to it are left out.
        """
        events = map(read_event, self.log.read_zone(self.zone, after, self.until))
        last = self.last_slot
        return takewhile(lambda event: last is None or slot_of(event) <= last, events)

    def has(self, event: ZoneEvent) -> bool:
        """Whether an event is of the period, and not of what was before it."""
        return slot_of(event) >= self.first_slot

    def count(self, kind: str, after: int = 0) -> int:
        """Events of a kind that one goes through, those before the period included."""
        return self.log.count(self.zone, kind, after, self.until)


def slot_of(event: ZoneEvent) -> int:
    """In which an event happened; the event that begins a slot is of that one."""
    return int(event.body["slot"]) if event.kind == EventType.SLOT_BEGAN else event.slot
