"""The market as one object: what the API's routes speak to."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from auctune.service.access.directory import Directory
from auctune.service.access.rate import RateLimit
from auctune.service.access.spending import Spending
from auctune.service.files.library import Library
from auctune.service.jobs.replies import Replies
from auctune.service.jobs.submissions import Submissions
from auctune.service.open_zone import OpenZone
from auctune.service.quotes import Quotes
from auctune.service.recorder import read_job
from auctune.service.store.event_log import EventLog
from auctune.service.store.pages import Pages
from auctune.service.zone.job_row import JobRow


@dataclass(frozen=True)
class Market:
    """Everything that is open.

    Attributes:
        zones: by name; the first is the default.
        directory: users, teams and keys.
        rate: of requests, by key.
        spending: against budgets.
        library: files.
        pages: lists of jobs, files and entries.
        log: of events.
        replies: to requests that are made again.
        quotes: that were shown.
        submissions: takes requests for jobs.
        now: tells unix time.
    """

    zones: dict[str, OpenZone]
    directory: Directory
    rate: RateLimit
    spending: Spending
    library: Library
    pages: Pages
    log: EventLog
    replies: Replies
    quotes: Quotes
    submissions: Submissions
    now: Callable[[], float]

    async def job(self, name: str, owner: str | None) -> JobRow | None:
        """A job of an owner, or of anybody; none: there is none, or it is somebody else's."""
        row = await asyncio.to_thread(self.pages.job, name)
        if row is None or (owner is not None and row.owner != owner):
            return None
        return read_job(row)
