"""Deletion of files: on request, and in the background once they have expired.

A file that an open job needs is not deleted. If it has expired, its owner no longer has it, and it
is deleted once the job is over. Nothing of this is kept in memory: after a restart the files that
have expired are found again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
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
            if record.id in await self._in_use([record.owner]):
                return False
            await self._files.delete(record)
            return True

    async def delete_expired(self) -> int:
        """Delete the files that have expired; return how many."""
        count = 0
        async for page in self._expired():
            # Asked before they are hidden too: a pending job must find the file that it keeps.
            in_use = await self._in_use({record.owner for record in page})
            for record in page:
                if record.id not in in_use and await self.delete(record):
                    count += 1
        if count:
            _log.info("deleted expired files", count=count)
        return count

    async def run(self, seconds: float, unready_reason: Callable[[], str | None]) -> None:
        """Delete expired files every so many seconds while the service is ready, until cancelled.

        A service whose clock is at fault is not ready.
        """
        while True:
            if unready_reason() is None:
                try:
                    await self.delete_expired()
                except (AuctuneError, OSError) as error:
                    # Deleted the next time; contents of deleted files at the next start.
                    _log.warning("expired files could not be deleted", reason=str(error))
            await asyncio.sleep(seconds)

    async def _expired(self) -> AsyncIterator[list[FileRecord]]:
        now, has_more = self._now(), True
        after: tuple[float, int] | None = None
        while has_more:
            page = await asyncio.to_thread(self._queries.expired_files, now, _PAGE, after)
            if page.items:
                after = page.items[-1].expires_at, page.items[-1].seq
                yield [FileRecord.from_row(row) for row in page.items]
            has_more = page.has_more

    async def _in_use(self, owners: Collection[str]) -> set[str]:
        """Return ids of files that open jobs need: of all users, in closed zones of these."""
        found: set[str] = set()
        for zone in self._zones.values():
            found |= await zone.actor.call(lambda zone: zone.files_in_use())
        for owner in owners:
            async for needed in in_turns(self._closed_zone_files(owner)):
                found |= needed
        return found

    def _closed_zone_files(self, owner: str) -> Iterator[set[str]]:
        """Yield ids of files that open jobs of zones outside the settings need, by page."""
        jobs = self._open_jobs.jobs_of(owner)
        read = partial(self._queries.jobs_by_id, jobs, outside=self._zones)
        for page in iter_pages(read) if jobs else ():
            needed = {file for row in page.items for file in _files_of(read_job(row).body)}
            yield {file for file in needed if file is not None}


def _files_of(body: Record) -> list[str | None]:
    """Return the ids of the files that a job needs, by the body of its row."""
    named = [body["training"].get(name) for name in _FILES]
    return [body.get("repaired"), *named, *(body["request"].get("sites") or {}).values()]
