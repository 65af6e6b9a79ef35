"""StorageQuota for files of each user: what is stored and what is still coming in count together.

An upload counts from its first byte on, with what was announced of it or what has come, whichever
is more: many that are begun at once have no more room than one after the other.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from auctune.service.accounts.limits import QuotaExceededError
from auctune.service.storage.queries import FileTotals


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Of each user.

    Attributes:
        upload_bytes: of one upload.
        uploads: how many may be under way at once.
        files: how many there may be, results included.
        bytes: of all of them.
        uploads_per_day: within the last 24 hours, those included that were deleted since.
        upload_bytes_per_day: of these.
    """

    upload_bytes: int
    uploads: int
    files: int
    bytes: int
    uploads_per_day: int
    upload_bytes_per_day: int


@dataclass(slots=True)
class _Usage:
    held: FileTotals
    today: FileTotals
    uploads: "list[Upload]" = field(default_factory=list)

    def check(self, limits: FileLimits) -> None:
        held, today = self.held, self.today
        coming = sum(upload.bytes for upload in self.uploads)
        if held.count + len(self.uploads) > limits.files:
            raise QuotaExceededError(f"there are {held.count} files of yours already; delete some")
        if held.bytes + coming > limits.bytes:
            raise QuotaExceededError(f"files of yours have {held.bytes} bytes already; delete some")
        # Each upload is examined, which costs time whether it is kept or not.
        if today.count + len(self.uploads) > limits.uploads_per_day:
            found = f"there were {today.count} uploads of yours within 24 hours"
            raise QuotaExceededError(f"{found}; use files that are there, or wait")
        if today.bytes + coming > limits.upload_bytes_per_day:
            found = f"uploads of yours within 24 hours have {today.bytes} bytes"
            raise QuotaExceededError(f"{found}; use files that are there, or wait")


class Upload:
    """One that is under way.

    Attributes:
        owner: whose.
        bytes: that it has, or will have at least.
    """

    def __init__(self, room: "StorageQuota", owner: str, announced: int) -> None:
        self.owner = owner
        self.bytes = announced
        self._room = room

    async def limited(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same chunks, as long as there is room for them.

        Raises:
            QuotaExceededError: as soon as there is none.
        """
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > self.bytes:
                self.bytes = size
                await self._room.check(self)
            yield chunk


class StorageQuota:
    """Of all users, on one loop.

    Args:
        limits: of each.
        totals: what an owner has stored; may block.
        today: what an owner uploaded within the last 24 hours; may block.
    """

    def __init__(
        self,
        limits: FileLimits,
        totals: Callable[[str], FileTotals],
        today: Callable[[str], FileTotals],
    ) -> None:
        self._limits = limits
        self._totals = totals
        self._today = today
        self._owners: dict[str, _Usage] = {}
        # Whoever looks at what is stored sees no file twice that is being taken in.
        self._looking = asyncio.Lock()

    @asynccontextmanager
    async def reserve(self, owner: str, announced: int) -> AsyncIterator[Upload]:
        """An upload of at least so many bytes, until the end of the block.

        Raises:
            QuotaExceededError: if there is no room for it.
        """
        known = self._owners.setdefault(owner, _Usage(FileTotals(0, 0), FileTotals(0, 0)))
        if len(known.uploads) >= self._limits.uploads:
            raise QuotaExceededError(
                f"{self._limits.uploads} uploads of yours are under way already"
            )
        upload = Upload(self, owner, announced)
        known.uploads.append(upload)
        try:
            async with self._looking:
                await self._refresh(known, owner)
            yield upload
        finally:
            self._end(upload)

    async def check(self, upload: Upload) -> None:
        """Whether an upload may go on.

        Raises:
            QuotaExceededError: if not.
        """
        known = self._owners[upload.owner]
        try:
            known.check(self._limits)
        except QuotaExceededError:
            # Files may have been deleted since it was looked.
            async with self._looking:
                await self._refresh(known, upload.owner)

    @asynccontextmanager
    async def importing(self, upload: Upload, size: int) -> AsyncIterator[None]:
        """An upload of this size is on disk; it is stored by the end of the block.

        Raises:
            QuotaExceededError: if there is no room for it after all.
        """
        async with self._looking:
            known = self._owners[upload.owner]
            upload.bytes = size
            await self._refresh(known, upload.owner)
            yield
            known.held = FileTotals(known.held.count + 1, known.held.bytes + size)
            known.today = FileTotals(known.today.count + 1, known.today.bytes + size)
            self._end(upload)

    async def _refresh(self, known: _Usage, owner: str) -> None:
        known.held = await asyncio.to_thread(self._totals, owner)
        known.today = await asyncio.to_thread(self._today, owner)
        known.check(self._limits)

    def _end(self, upload: Upload) -> None:
        known = self._owners.get(upload.owner)
        if known is not None and upload in known.uploads:
            known.uploads.remove(upload)
            if not known.uploads:
                del self._owners[upload.owner]
