"""Who answers requests for one zone, once they are known to be for its kind."""

from typing import Any, Protocol

from auctune.service.access.key import Principal
from auctune.service.files.record import FileRecord
from auctune.service.jobs.reply import Reply
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.quotes import Quote
from auctune.service.zones.docket import Docket
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.offer import Alternatives, Priced


class TakesBids(Protocol):
    """Shows prices or estimates, and takes bids; see `OpenZone`, whose words these are."""

    @property
    def docket(self) -> Docket[Any, Any]:
        """Jobs that are to be decided on."""
        ...

    async def look_at(self, file: FileRecord) -> None:
        """Look at a new upload, so that bids for it need not wait."""
        ...

    async def quote(self, who: Principal, request: JobRequest) -> Priced:
        """What a job would cost, or come to.

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
        reply: Reply | None,
        alternatives: Alternatives,
    ) -> JobRow:
        """A job, as it stands once this is on record.

        Raises:
            InputError: as `preview`.
        """
        ...

    async def accept(
        self, job: str, who: Principal, accepted: Acceptance, quote: Quote, reply: Reply | None
    ) -> JobRow:
        """The job of what was shown, at no more than was shown.

        Raises:
            InputError: if nothing like it was shown, or it is of another job.
            QuoteChangedError: if it is not to be had any more.
        """
        ...
