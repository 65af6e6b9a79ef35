"""Storage quota of each user: stored files and uploads in progress count together.

An upload counts from its first byte on, with its announced size or what has arrived, whichever is
more: many uploads that begin at once have no more room than one after the other.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from auctune.service.accounts.limits import QuotaExceededError
from auctune.service.config.models import LimitsConfig
from auctune.service.fair_queue import in_thread
from auctune.service.storage.queries import FileTotals


class Upload:
    """An upload in progress, and its bytes: received so far, or announced if that is more."""

    def __init__(self, quota: "StorageQuota", owner: str, announced: int) -> None:
        self.owner = owner
        self.bytes = announced
        self._quota = quota

    async def limited(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the same chunks as long as there is room; raise QuotaExceededError after that."""
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > self.bytes:
                self.bytes = size
                await self._quota.check(self)
            yield chunk


@dataclass(slots=True)
class _Usage:
    """Usage of an owner with uploads in progress."""

    stored: FileTotals
    today: FileTotals
    uploads: list[Upload] = field(default_factory=list)
    # While totals are read, no upload turns into a stored file: none counts twice.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def check(self, limits: LimitsConfig) -> None:
        stored, today = self.stored, self.today
        coming = sum(upload.bytes for upload in self.uploads)
        if stored.count + len(self.uploads) > limits.files:
            raise QuotaExceededError(f"you already have {stored.count} files; delete some")
        if stored.bytes + coming > limits.stored_bytes:
            raise QuotaExceededError(f"your files already have {stored.bytes} bytes; delete some")
        # Each upload is examined, which costs time whether the file is kept or not.
        if today.count + len(self.uploads) > limits.uploads_per_day:
            found = f"you uploaded {today.count} files within 24 hours"
            raise QuotaExceededError(f"{found}; use uploaded files, or wait")
        if today.bytes + coming > limits.upload_bytes_per_day:
            found = f"you uploaded {today.bytes} bytes within 24 hours"
            raise QuotaExceededError(f"{found}; use uploaded files, or wait")


class StorageQuota:
    """Quota of all users, on one event loop.

    `totals` returns what an owner has stored, `today` what it uploaded within 24 hours; both block.
    """

    def __init__(
        self,
        limits: LimitsConfig,
        totals: Callable[[str], FileTotals],
        today: Callable[[str], FileTotals],
    ) -> None:
        self._limits = limits
        self._totals = totals
        self._today = today
        self._owners: dict[str, _Usage] = {}

    @asynccontextmanager
    async def reserve(self, owner: str, announced: int) -> AsyncIterator[Upload]:
        """Reserve room for an upload of at least so many bytes, or raise QuotaExceededError."""
        usage = self._owners.setdefault(owner, _Usage(FileTotals(0, 0), FileTotals(0, 0)))
        if len(usage.uploads) >= self._limits.uploads:
            raise QuotaExceededError(f"you already have {self._limits.uploads} uploads in progress")
        upload = Upload(self, owner, announced)
        usage.uploads.append(upload)
        try:
            async with usage.lock:
                await self._refresh(usage, owner)
            yield upload
        finally:
            self._end(upload)

    async def check(self, upload: Upload) -> None:
        """Raise QuotaExceededError if there is no room for an upload."""
        usage = self._owners[upload.owner]
        try:
            usage.check(self._limits)
        except QuotaExceededError:
            # Files may have been deleted since the totals were read.
            async with usage.lock:
                await self._refresh(usage, upload.owner)

    @asynccontextmanager
    async def importing(self, upload: Upload, size: int) -> AsyncIterator[None]:
        """Count an upload that is complete, if there is room for it; the block stores it."""
        usage = self._owners[upload.owner]
        async with usage.lock:
            upload.bytes = size
            await self._refresh(usage, upload.owner)
            yield
            usage.stored = FileTotals(usage.stored.count + 1, usage.stored.bytes + size)
            usage.today = FileTotals(usage.today.count + 1, usage.today.bytes + size)
            self._end(upload)

    async def _refresh(self, usage: _Usage, owner: str) -> None:
        usage.stored, usage.today = await in_thread(
            lambda: (self._totals(owner), self._today(owner))
        )
        usage.check(self._limits)

    def _end(self, upload: Upload) -> None:
        usage = self._owners.get(upload.owner)
        if usage is not None and upload in usage.uploads:
            usage.uploads.remove(upload)
            if not usage.uploads:
                del self._owners[upload.owner]
