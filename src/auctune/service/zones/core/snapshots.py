"""Snapshots of zones, taken from time to time, so that a restart folds only later events."""

import asyncio
from typing import Any

from auctune.domain import write_snapshot
from auctune.service.storage import Committer, Snapshots
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.state import SnapshotWriter
from auctune.service.zones.core.zone import AnyZone

SNAPSHOT_INTERVAL = 20_000
"""Events between two snapshots: about a second's work for a restart."""


class Snapshotter:
    """Takes snapshots of one zone, after every `interval` events."""

    def __init__(
        self,
        actor: ZoneActor[AnyZone],
        clock: SlotClock,
        snapshots: Snapshots,
        committer: Committer,
        interval: int = SNAPSHOT_INTERVAL,
    ) -> None:
        self._actor = actor
        self._clock = clock
        self._snapshots = snapshots
        self._committer = committer
        self._interval = interval
        self._writer = SnapshotWriter()
        self._seq = 0

    async def snapshot_if_due(self) -> None:
        """Take a snapshot if the next restart would have to fold many events."""
        while not await self._actor.call(self._prepare):
            # Requests are answered in between.
            pass
        saved = await self._actor.call(self._write)
        if saved is None:
            return
        self._seq, snapshot = saved
        body = await asyncio.to_thread(write_snapshot, snapshot)
        batch = await asyncio.to_thread(
            self._snapshots.write_batch, self._actor.name, self._seq, self._clock.now(), body
        )
        self._committer.submit(batch)

    def _is_due(self, zone: AnyZone) -> bool:
        return zone.model.seq - self._seq >= self._interval

    def _prepare(self, zone: AnyZone) -> bool:
        return not self._is_due(zone) or self._writer.prepare(zone.model.state)

    def _write(self, zone: AnyZone) -> tuple[int, dict[str, Any]] | None:
        if not self._is_due(zone):
            return None
        return zone.model.seq, self._writer.write(zone.model)
