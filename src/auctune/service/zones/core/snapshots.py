"""Snapshots of zones, taken from time to time, so that a restart folds only later events."""

import asyncio
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from auctune.domain import write_snapshot
from auctune.service.storage import Committer, Snapshots
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import ZoneEvent
from auctune.service.zones.core.read_model import Effects
from auctune.service.zones.core.zone import AnyZone

SNAPSHOT_INTERVAL = 20_000
"""What a restart would have to fold: a second's work or so."""

Z = TypeVar("Z", bound=AnyZone)
Z_contra = TypeVar("Z_contra", contravariant=True)


class SnapshotSource(Protocol[Z_contra]):
    """Puts a zone's memory into words, on the actor's thread."""

    def seq(self, zone: Z_contra) -> int:
        """Of the newest event that the memory knows."""
        ...

    def prepare(self, zone: Z_contra) -> bool:
        """Do some of it ahead of `save`; whether all is done. Requests go on in between."""
        ...

    def save(self, zone: Z_contra) -> Mapping[str, Any]:
        """All that the zone remembers; nothing of it changes when the zone goes on."""
        ...


class Snapshotter(Generic[Z]):
    """Of one zone.

    Args:
        actor: its thread.
        clock: tells the time.
        saver: puts its memory into words.
        snapshots: makes them.
        committer: writes them.
        events: after how many events there is to be another one.
    """

    def __init__(
        self,
        actor: ZoneActor[Z],
        clock: SlotClock,
        saver: SnapshotSource[Z],
        snapshots: Snapshots,
        committer: Committer,
        events: int = SNAPSHOT_INTERVAL,
    ) -> None:
        self._events = events
        self._actor = actor
        self._clock = clock
        self._saver = saver
        self._snapshots = snapshots
        self._committer = committer
        self._seq = 0

    async def snapshot_if_due(self) -> None:
        """Keep the zone's memory, when the next restart would fold much."""
        while not await self._actor.call(self._prepare):
            pass
        saved = await self._actor.call(self._save)
        if saved is None:
            return
        self._seq, memory = saved
        body = await asyncio.to_thread(write_snapshot, memory)
        unit = await asyncio.to_thread(
            self._snapshots.write_batch, self._actor.name, self._seq, self._clock.now(), body
        )
        self._committer.submit(unit)

    def _is_due(self, zone: Z) -> bool:
        return self._saver.seq(zone) - self._seq >= self._events

    def _prepare(self, zone: Z) -> bool:
        return not self._is_due(zone) or self._saver.prepare(zone)

    def _save(self, zone: Z) -> tuple[int, Mapping[str, Any]] | None:
        return (self._saver.seq(zone), self._saver.save(zone)) if self._is_due(zone) else None


# The model of a zone, restored from a snapshot and the events after it.


class ZoneModel(Protocol):
    """State of a zone, and whatever decides by it."""

    @property
    def seq(self) -> int:
        """Of the newest event applied; 0 before the first."""
        ...

    def load(self, body: bytes) -> None:
        """Take over a snapshot, into a memory that is empty.

        Raises:
            ValueError: if it cannot be read, or is of other settings.
            InputError, KeyError, TypeError: likewise.
        """
        ...

    def apply(self, event: ZoneEvent) -> Effects:
        """Take over one event; what it changes for readers."""
        ...
