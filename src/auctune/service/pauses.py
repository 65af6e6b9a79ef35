"""Zones that take no bids for now; what was admitted goes on."""

from sqlalchemy import Engine, select

from auctune.service.durable import durable
from auctune.service.store import Committer, Unit, tables

_NAMED = "paused:"


class Pauses:
    """Which zones are paused, also after a restart.

    Args:
        reader: of the store.
        committer: writes.
        paused: filled, and kept as it stands.
    """

    def __init__(self, reader: Engine, committer: Committer, paused: set[str]) -> None:
        self._committer = committer
        self.paused = paused
        table = tables.meta
        with reader.connect() as connection:
            names = connection.execute(
                select(table.c.name).where(table.c.name.like(f"{_NAMED}%"))
            ).scalars()
            paused.update(name.removeprefix(_NAMED) for name in names)

    async def pause(self, zone: str) -> None:
        """Take no more bids."""
        self.paused.add(zone)
        row = {"name": _NAMED + zone, "value": "yes"}
        await durable(self._committer, Unit().upsert(tables.meta, row))

    async def resume(self, zone: str) -> None:
        """Take bids again."""
        await durable(self._committer, Unit().remove(tables.meta, {"name": _NAMED + zone}))
        self.paused.discard(zone)
