"""From a request for a job to its decision: files are looked at, the bid is read, the zone decides.

Where the files were looked at before, the decision is the answer. Where they were not, or a vendor
must be asked, the job is on record as `validating_files` first, and decided as soon as they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from auctune.domain import AuctuneError, InputError, Money
from auctune.run.data.client import DataError
from auctune.service.access.key import Principal
from auctune.service.access.open_jobs import OpenJobs
from auctune.service.access.spending import Spending
from auctune.service.background import Background
from auctune.service.files.library import Library
from auctune.service.files.record import FileRecord
from auctune.service.identifiers import new_id
from auctune.service.jobs.asked import training_of
from auctune.service.jobs.bids import Bids, bid_amount, shown_request
from auctune.service.jobs.job_files import JobFiles
from auctune.service.jobs.offered_zones import OfferedZones
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.training import Training
from auctune.service.quotes import Quote, Quotes
from auctune.service.zones.auction.bid import Reply
from auctune.service.zones.auction.quoting import Quoting
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.open_zone import Appraisal, OpenZone

_log = structlog.get_logger(__name__)


class Submissions:
    """Takes requests for jobs.

    Args:
        zones: by name; the first is the default.
        library: of files.
        spending: against budgets.
        open_jobs: how many there are.
        quotes: that were shown.
        now: tells unix time.
    """

    def __init__(
        self,
        zones: Mapping[str, OpenZone],
        library: Library,
        spending: Spending,
        open_jobs: OpenJobs,
        quotes: Quotes,
        now: Callable[[], float],
    ) -> None:
        self._open_jobs = open_jobs
        self._zones = OfferedZones(zones)
        self._files = JobFiles(library)
        self._bids = Bids(spending, now, is_alone=len(zones) == 1)
        self._quoting = Quoting(self._zones, self._files, self._bids, quotes, now)
        self._background = Background()

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
        """
        job = new_id("ftjob")
        with self._open_jobs.room(who.user, job):
            if isinstance(request, Acceptance):
                return await self._quoting.accept(job, who, request, reply)
            return await self._bid_for(job, who, request, reply)

    async def preview(self, who: Principal, request: JobRequest) -> JobRow:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: as `submit`.
        """
        return await self._quoting.preview(who, request)

    async def quote(self, who: Principal, request: JobRequest) -> Quote:
        """What a job would cost, by the time at which it is finished.

        Raises:
            InputError: as `submit`; a bid and a deadline may be left out.
        """
        return await self._quoting.quote(who, request)

    def look_at(self, file: FileRecord) -> None:
        """Size a new upload for all bases, so that bids for it need not wait."""
        for zone in self._zones:
            self._background.begin(self._files.look_at(zone, file))

    def decide_later(
        self,
        zone: OpenZone,
        job: str,
        owner: str,
        training: Training,
        request: dict[str, Any],
    ) -> None:
        """Look at a received job's files, then decide on it; also after a restart."""
        self._background.begin(self._decide(zone, job, owner, training, request))

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self._background.close()

    async def _bid_for(
        self, job: str, who: Principal, request: JobRequest, reply: Reply | None
    ) -> JobRow:
        zone = self._zones.meant(request)
        self._zones.check_open(zone)
        amount = bid_amount(request)
        deadline = self._bids.deadline(request)
        training = training_of(request, zone.defaults)
        file = await self._files.get(training.data, who.user, "training_file")
        if training.validation is not None:
            await self._files.get(training.validation, who.user, "validation_file")
        self._files.check_there(training)
        shown = shown_request(request, who, amount, deadline)
        size = self._files.known_size(zone, file, training)
        if size is None:
            row = await zone.ask(lambda desk: desk.receive(job, who.user, shown, training, reply))
            self.decide_later(zone, job, who.user, training, shown)
            return row
        made = self._bids.make(job, who.user, training, Appraisal(size), amount, deadline, shown)
        bid = replace(made, reply=reply)
        return await self._bids.in_turn(who.user, zone, lambda desk: desk.decide(bid))

    async def _decide(
        self,
        zone: OpenZone,
        job: str,
        owner: str,
        training: Training,
        request: dict[str, Any],
    ) -> None:
        try:
            file = await self._files.get(training.data, owner, "training_file")
            found = await self._files.appraise(zone, file, training, owner)
            amount, deadline = Money(request["bid"]), request["deadline"]
            bid = self._bids.make(job, owner, training, found, amount, deadline, request)
            await self._bids.in_turn(owner, zone, lambda desk: desk.decide_received(bid))
        except InputError as error:
            refusal = error
            await zone.ask(lambda desk: desk.refuse(job, refusal))
        except DataError as error:
            reason = str(error)
            await zone.ask(lambda desk: _give_up(desk, job, "data_failed", reason, "training_file"))
        except AuctuneError as error:
            # The job stays on record as received, and is taken up again at the next start.
            _log.error("a job could not be decided on", job=job, reason=str(error))
        except Exception:
            # A mistake of ours would be made again: its owner shall not wait for it.
            _log.exception("a job could not be decided on", job=job)
            reason = "the service made a mistake; it is on record, and nothing was charged"
            await zone.ask(lambda desk: _give_up(desk, job, "internal", reason, None))


def _give_up(zone: AuctionZone, job: str, code: str, reason: str, param: str | None) -> None:
    """End a job that is not decided on yet: it holds no cells, and has paid nothing."""
    if job in zone.state.received:
        zone.fail(job, code, reason, param, refund=False)
