"""What training left of a job, packed into a file of its owner's."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from auctune.run.data.client import DataClient
from auctune.service.files.repository import FileRepository
from auctune.service.zones.desk import Desk
from auctune.service.zones.zone import Zone

Z = TypeVar("Z", bound=Zone)


class Packer(Generic[Z]):
    """Of one zone.

    Args:
        desk: of the zone.
        data: the data process, which packs.
        library: files.
    """

    def __init__(self, desk: Desk[Z], data: DataClient, library: FileRepository) -> None:
        self._desk, self._data, self._library = desk, data, library

    async def archive(
        self, job: str, owner: str, source: Path, target: Path, end: Callable[[Z, str], bool]
    ) -> None:
        """Pack a folder, and end its job with that.

        Args:
            job: its id.
            owner: whose file it is to be.
            source: the folder.
            target: of the archive, until it is among the files.
            end: run on the zone with the file's id; whether the job was still there.
        """
        await asyncio.wrap_future(self._data.archive(source, target, job, owner=owner))
        record = await self._library.import_result(owner, target.name, target)
        if not await self._desk.call(lambda zone: end(zone, record.id)):
            # It was cancelled meanwhile: nobody is to have it.
            await self._library.delete(record)
