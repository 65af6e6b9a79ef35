"""What requests are answered by: a zone that is open, and whoever takes its bids."""

from typing import Protocol

from auctune.service.accounts.keys import Principal
from auctune.service.files.repository import FileRecord
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.quotes import Quote
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.offer import Alternatives, Priced


class AnswersRequests(Protocol):
    """Shows prices or estimates, and takes jobs."""

    async def preload(self, file: FileRecord) -> bool:
        """Look at a new upload, so that bids for it need not wait.

        Return whether it is data of the kind that the zone trains on; if not, nothing is noted.
        """
        ...

    async def quote(self, who: Principal, request: JobRequest) -> Priced:
        """What a job would cost here.

        Raises:
            InputError: if it is no job that could be decided on; a bid may be left out.
        """
        ...

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobRow:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        ...

    async def submit(
        self,
        job: str,
        who: Principal,
        request: JobRequest,
        reply: IdempotencyKey | None,
        alternatives: Alternatives,
    ) -> JobRow:
        """Take a job, as it stands once this is on record.

        Args:
            job: its id.
            who: asks for it.
            request: for it.
            reply: by what the same request is known when it is made again; none: by nothing.
            alternatives: what zones said where this one was chosen; they stay on record with it.

        Raises:
            InputError: as `preview`.
        """
        ...

    async def accept(
        self,
        job: str,
        who: Principal,
        accepted: Acceptance,
        quote: Quote,
        reply: IdempotencyKey | None,
    ) -> JobRow:
        """The job of a line that was shown, at no more than was shown.

        Raises:
            InputError: if there is no such line, or it is of another job.
            QuoteChangedError: if it is not to be had any more.
        """
        ...
