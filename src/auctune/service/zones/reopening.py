"""Opening a zone as it stood: what its log says it was opened with, what it remembers, its desk."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from auctune.domain import InputError
from auctune.service.storage import EventLog, Snapshots
from auctune.service.zones.desk import Desk
from auctune.service.zones.event import Kind
from auctune.service.zones.memory import Memory
from auctune.service.zones.noting import NotingZone
from auctune.service.zones.premises import Premises
from auctune.service.zones.restart import opening_of, restart

M = TypeVar("M", bound=Memory)
Z = TypeVar("Z", bound=NotingZone[Any, Any])

Terms = Mapping[str, Any]
"""The body of the event with which a zone opens."""


class Reopening:
    """Opens zones of one kind where their logs end.

    Args:
        premises: what all zones are opened with.

    Attributes:
        log: of events.
        snapshots: of zones.
    """

    def __init__(self, premises: Premises) -> None:
        self._premises = premises
        self.log = EventLog(premises.store.reader)
        self.snapshots = Snapshots(premises.store.reader)

    def recorded_settings(
        self, zone: str, wanted: Terms, check: Callable[[Terms, Terms], None]
    ) -> Terms:
        """Those that a zone was opened with; of one that is new, those that are wanted.

        Args:
            zone: its name.
            wanted: by its settings as they are now.
            check: told what is wanted and what was; refuses what must not change.
        """
        opened = opening_of(zone, self.log)
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
        self._premises.report(f"reading the log of zone {zone}", 0.0)
        return await asyncio.to_thread(lambda: restart(zone, fresh, self.log, self.snapshots))

    def start_actor(self, zone: Z, memory: Memory, terms: Terms) -> Desk[Z]:
        """The desk of a zone that is at its newest slot; one that is new opens with it."""
        if memory.seq == 0:
            zone.record(Kind.ZONE_OPENED, None, dict(terms))
        zone.begin_slots()
        return Desk(zone, self._premises.recorder, self._premises.on_fatal_error)


def check_same(zone: str, names: Iterable[str], wanted: Terms, opened: Terms) -> None:
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
            raise changed(zone, name, wanted[name], opened[name])


def changed(zone: str, name: str, now: object, before: object) -> InputError:
    """Of a term of a zone that must be as it was."""
    found = f"{now} where the zone was opened with {before}"
    return InputError(f"zone {zone}: {name}", found, "the same, or another zone")
