"""The market as one object: what the API's routes speak to."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from starlette.types import ASGIApp

from auctune.service.access.directory import Account, Budget, Directory
from auctune.service.access.open_jobs import OpenJobs
from auctune.service.access.rate import RateLimit
from auctune.service.access.spending import Spending
from auctune.service.access.streams import Streams
from auctune.service.access.turns import Turns
from auctune.service.explanations import Explanations
from auctune.service.files.library import Library
from auctune.service.jobs.replies import Replies
from auctune.service.jobs.submissions import Submissions
from auctune.service.metrics import Metrics
from auctune.service.notifier import Notifier
from auctune.service.page.chart_client import ChartClient
from auctune.service.pauses import Pauses
from auctune.service.quotes import Quotes
from auctune.service.recorder import read_job
from auctune.service.store import Store
from auctune.service.store.committer import Committer
from auctune.service.store.event_log import EventLog
from auctune.service.store.pages import Pages
from auctune.service.webhooks.dispatcher import WebhookDispatcher
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.kind import Views, ZoneKind
from auctune.service.zones.kinds import KINDS, kind_of_opening
from auctune.service.zones.open_zone import OpenZone
from auctune.service.zones.restart import opening_of

_ID = re.compile(r"ftjob-[A-Za-z0-9]{1,64}")


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
        open_jobs: of each user.
        explanations: of decisions.
        webhooks: sends notifications of jobs that have ended.
        committer: writes.
        store: to which it writes.
        metrics: totals.
        notifier: wakes who waits for committed events.
        searches: through all jobs of a user, one at a time.
        streams: how many each key has open.
        requests: likewise, that are not answered yet.
        bids: stored for each user, in the long run; `bid_bytes` counts their bytes.
        bid_bytes: see there.
        pauses: of zones.
        charts: draws those of the page.
        vendor_app: what external vendors reach, or None without any.
        work: folder of checkpoints and adapters, one a zone.
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
    open_jobs: OpenJobs
    explanations: Explanations
    webhooks: WebhookDispatcher
    committer: Committer
    store: Store
    metrics: Metrics
    notifier: Notifier
    searches: Turns
    streams: Streams
    requests: Streams
    bids: RateLimit
    bid_bytes: RateLimit
    pauses: Pauses
    charts: ChartClient
    vendor_app: ASGIApp | None
    work: Path
    now: Callable[[], float]
    _closed: dict[str, tuple[ZoneKind, SlotClock]] = field(default_factory=dict)

    def clock(self, zone: str) -> SlotClock:
        """The slots of a zone, also of one that is no longer in the settings."""
        found = self.zones.get(zone)
        if found is not None:
            return found.clock
        return self._of_closed(zone)[1]

    def views(self, zone: str) -> Views:
        """What readers see of a zone's jobs, likewise."""
        found = self.zones.get(zone)
        kind = KINDS[found.kind] if found is not None else self._of_closed(zone)[0]
        return kind.views

    async def job(self, name: str, owner: str | None) -> JobRow | None:
        """A job of an owner, or of anybody; none: there is none, or it is somebody else's."""
        if not _ID.fullmatch(name):
            return None
        row = await asyncio.to_thread(self.pages.job, name)
        if row is None or (owner is not None and row.owner != owner):
            return None
        return read_job(row)

    def _of_closed(self, zone: str) -> tuple[ZoneKind, SlotClock]:
        """Kind and slots of a zone that is no longer in the settings."""
        if zone not in self._closed:
            opened = opening_of(zone, self.log)
            assert opened is not None
            body = opened.body
            clock = SlotClock(body["epoch"], body["slot_seconds"], self.now)
            self._closed[zone] = kind_of_opening(body), clock
        return self._closed[zone]

    async def put_team(self, name: str, budget: Budget | None) -> Account:
        """Add a team, or change its budget; what was paid in its span counts."""
        team = await self.directory.put_team(name, budget)
        await self.spending.reload(team, self.committer)
        return team

    async def put_user(self, name: str, team: str | None, budget: Budget | None) -> Account:
        """Add a user, or change its team and budget; likewise.

        Raises:
            InputError: if there is no such team.
        """
        before = self.spending.accounts(name)
        user = await self.directory.put_user(name, team, budget)
        # A team that was left is counted anew as well.
        changed = {one.key: one for one in (*before, *self.spending.accounts(name))}
        for account in changed.values():
            await self.spending.reload(account, self.committer)
        return user
