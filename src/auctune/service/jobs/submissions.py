"""Requests for jobs, each led to the zone that it is for.

A request that names a zone, or whose model one zone alone has, goes there at once. For any other
one all zones of its model are asked first, and what they said stays with the job.
"""

import asyncio
from collections.abc import Callable, Mapping

from auctune.domain import InputError
from auctune.service.accounts.keys import Principal
from auctune.service.accounts.limits import JobQuota
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.identifiers import new_id
from auctune.service.jobs.choice import choose
from auctune.service.jobs.offered_zones import OfferedZones
from auctune.service.jobs.quotes import Quote, QuoteStore, require_quote
from auctune.service.jobs.reply import Reply
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.tasks import TaskSet
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.offer import NO_CHOICE, Alternatives, Priced
from auctune.service.zones.open_zone import OpenZone


class Submissions:
    """Takes requests for jobs.

    Args:
        zones: by name.
        open_jobs: how many there are.
        quotes: that were shown.
        library: of files.
        check: raises an error while the service takes no bids.
    """

    def __init__(
        self,
        zones: Mapping[str, OpenZone],
        open_jobs: JobQuota,
        quotes: QuoteStore,
        library: FileRepository,
        check: Callable[[], None],
    ) -> None:
        self._check = check
        self._library = library
        self._open_jobs = open_jobs
        self._zones = OfferedZones(zones)
        self._quotes = quotes
        self._background = TaskSet()

    @property
    def paused(self) -> set[str]:
        """Names of zones that take no bids for now."""
        return self._zones.paused

    async def submit(
        self, who: Principal, request: JobRequest | Acceptance, reply: Reply | None
    ) -> JobRow:
        """A job, as it stands once this is on record.

        Raises:
            InputError: if it is no job that could be decided on.
            QuoteChangedError: if it accepts a line that is not to be had.
            TooManyError: if its owner has too many open jobs.
            ZonePausedError: if its zone takes no bids.
            ClockError: while the machine's clock is wrong.
            DiskFullError: while the service's disk is nearly full.
        """
        self._check()
        job = new_id("ftjob")
        with self._open_jobs.reserve(who.user, job):
            if isinstance(request, Acceptance):
                return await self._accept(job, who, request, reply)
            zones = self._zones.candidates(request)
            zone, alternatives = zones[0], NO_CHOICE
            if len(zones) > 1:
                choice = await choose(zones, who, request, self.paused)
                zone, alternatives = choice.zone, choice.alternatives
            self._zones.check_open(zone)
            return await zone.submit(job, who, request, reply, alternatives)

    async def preview(self, who: Principal, request: JobRequest) -> JobRow:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: as `submit`.
        """
        zones = self._zones.candidates(request)
        if len(zones) == 1:
            return await zones[0].preview(who, request, NO_CHOICE)
        choice = await choose(zones, who, request, self.paused)
        return await choice.zone.preview(who, request, choice.alternatives)

    async def quote(self, who: Principal, request: JobRequest) -> Quote:
        """What a job would cost.

        Raises:
            InputError: as `submit`; a bid and a deadline may be left out.
        """
        zones = self._zones.candidates(request)
        if len(zones) == 1:
            return self._store_quote(who, zones[0], request, await zones[0].quote(who, request), ())
        choice = await choose(zones, who, request, self.paused)
        priced = choice.priced or await choice.zone.quote(who, request)
        return self._store_quote(who, choice.zone, request, priced, choice.alternatives)

    def preload(self, file: FileRecord) -> None:
        """Look at a new upload for all zones, so that bids for it need not wait."""
        self._background.spawn(self._look_at(file))

    async def resume(self) -> None:
        """After a start, look at the uploads that had not been looked at when the service ended."""
        for file in await self._library.unexamined():
            self.preload(file)

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self._background.close()
        for zone in self._zones:
            await zone.close()

    def _store_quote(
        self,
        who: Principal,
        zone: OpenZone,
        request: JobRequest,
        priced: Priced,
        alternatives: Alternatives,
    ) -> Quote:
        return self._quotes.add(who.user, zone.name, zone.kind, request, priced, alternatives)

    async def _look_at(self, file: FileRecord) -> None:
        looks = await asyncio.gather(*(zone.preload(file) for zone in self._zones))
        if not any(looks):
            known = ", ".join(dict.fromkeys(zone.kind for zone in self._zones))
            error = InputError(
                "file",
                f"holds data that no zone here trains on (kinds of zones here: {known})",
                "rows of text (JSONL); or for zones of kind edge, images (.npz)",
            )
            await self._library.set_error(file.id, str(error))

    async def _accept(
        self, job: str, who: Principal, accepted: Acceptance, reply: Reply | None
    ) -> JobRow:
        quote = require_quote(self._quotes, accepted, who.user)
        zone = self._zones.get(quote.zone)
        self._zones.check_open(zone)
        return await zone.accept(job, who, accepted, quote, reply)
