"""Deletion of files: on request, and in the background once they have expired.

A file that an open job needs is not deleted. If it has expired, its owner no longer has it, and it
is deleted once the job is over. Nothing of this is kept in memory: after a restart the files that
have expired are found again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial

import structlog

from auctune.domain import AuctuneError
from auctune.service.accounts.limits import OpenJobs
from auctune.service.event_writer import read_job
from auctune.service.fair_queue import in_turns
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.storage import Queries, iter_pages
from auctune.service.storage.event_log import Record
from auctune.service.zones.core.gateway import AnyGateway

_PAGE = 200
# Fields of a job's training with the ids of files that it needs.
_FILES = ("data", "validation", "start_from")

_log = structlog.get_logger(__name__)


class FileLifecycle:
    """Deletes files, unless an open job of any zone needs them."""

    def __init__(
        self,
        files: FileRepository,
        zones: Mapping[str, AnyGateway],
        open_jobs: OpenJobs,
        queries: Queries,
        now: Callable[[], float],
    ) -> None:
        self._files = files
        self._zones = zones
        self._open_jobs = open_jobs
        self._queries = queries
        self._now = now

    async def delete(self, record: FileRecord) -> bool:
        """Delete a file; return False if an open job needs it."""
        async with self._files.tombstone(record):
            # From here on new jobs with this file are refused; earlier ones are known to the zones.
            if await self._is_used(record):
                return False
            await self._files.delete(record)
            return True

    async def delete_expired(self) -> int:
        """Delete the files that have expired; return how many."""
        count = 0
        async for record in self._expired():
            # Asked before it is hidden too: a pending job must find the file that it keeps.
            if not await self._is_used(record) and await self.delete(record):
                count += 1
        if count:
            _log.info("deleted expired files", count=count)
        return count

    async def run(self, seconds: float) -> None:
        """Delete expired files every so many seconds, until cancelled."""
        while True:
            try:
                await self.delete_expired()
            except (AuctuneError, OSError) as error:
                # Deleted the next time; contents of deleted files at the next start.
                _log.warning("expired files could not be deleted", reason=str(error))
            await asyncio.sleep(seconds)

    async def _expired(self) -> AsyncIterator[FileRecord]:
        now, after, has_more = self._now(), None, True
        while has_more:
            page = await asyncio.to_thread(self._queries.expired_files, now, _PAGE, after)
            for row in page.items:
                after = row.seq
                yield FileRecord.from_row(row)
            has_more = page.has_more

    async def _is_used(self, record: FileRecord) -> bool:
        for zone in self._zones.values():
            if await zone.actor.call(lambda zone: zone.uses_file(record.id)):
                return True
        async for is_used in in_turns(self._closed_zone_uses(record)):
            if is_used:
                return True
        return False

    def _closed_zone_uses(self, record: FileRecord) -> Iterator[bool]:
        """Yield whether open jobs of zones that are not in the settings need a file, by page."""
        jobs = self._open_jobs.jobs_of(record.owner)
        read = partial(self._queries.jobs_by_id, jobs, outside=self._zones)
        for page in iter_pages(read) if jobs else ():
            yield any(record.id in _files_of(read_job(row).body) for row in page.items)


def _files_of(body: Record) -> list[str | None]:
    """Return the ids of the files that a job needs, by the body of its row."""
    named = [body["training"].get(name) for name in _FILES]
    return [body.get("repaired"), *named, *(body["request"].get("sites") or {}).values()]
