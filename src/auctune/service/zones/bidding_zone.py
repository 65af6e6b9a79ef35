"""What zones that are open for business have in common: requests are checked, and passed on."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from auctune.service.accounts.keys import Principal
from auctune.service.files.repository import FileRecord
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.quotes import Quote
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.zones.desk import Desk
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.noting import NotingZone
from auctune.service.zones.offer import Alternatives, Priced
from auctune.service.zones.open_zone import Explainer, Nodes, Renting, SharedPool, Sites
from auctune.service.zones.takes_bids import TakesBids

B = TypeVar("B", bound=TakesBids)
T = TypeVar("T")
Z = TypeVar("Z", bound=NotingZone[Any, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class BiddingZone(ABC, Generic[Z, B]):
    """One zone; its kind makes it an `OpenZone`, and says which requests it takes.

    Attributes:
        desk: decides.
        bidding: answers requests.
        nodes: those that an operator prices and drains; none: it has none of its own.
        explainer: of its decisions; none: they are not explained.
    """

    desk: Desk[Z]
    bids: B
    nodes: Nodes | None = None
    explainer: Explainer | None = None

    @abstractmethod
    def _check(self, request: JobRequest) -> None:
        """Refuse what means nothing here.

        Raises:
            InputError: naming the first of it.
        """

    @property
    def name(self) -> str:
        """Unique in the service."""
        return self.desk.name

    @property
    def renting(self) -> Renting | None:
        """What an operator sees of what it rents: it rents nothing."""
        return None

    @property
    def pool(self) -> SharedPool | None:
        """What its jobs share: they share nothing."""
        return None

    @property
    def sites(self) -> Sites | None:
        """Where data are: nowhere but here."""
        return None

    async def call(self, run: Callable[[Z], T]) -> T:
        """What `run` comes to on the desk's thread, once it is on record."""
        return await self.desk.call(run)

    async def preload(self, file: FileRecord) -> bool:
        """Look at a new upload; see `AnswersRequests.look_at`."""
        return await self.bids.preload(file)

    async def quote(self, who: Principal, request: JobRequest) -> Priced:
        """What a job would cost, or come to, here."""
        self._check(request)
        return await self.bids.quote(who, request)

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobRow:
        """The job as it would be decided; nothing happens."""
        self._check(request)
        return await self.bids.preview(who, request, alternatives)

    async def submit(
        self,
        job: str,
        who: Principal,
        request: JobRequest,
        reply: IdempotencyKey | None,
        alternatives: Alternatives,
    ) -> JobRow:
        """A job, as it stands once this is on record."""
        self._check(request)
        return await self.bids.submit(job, who, request, reply, alternatives)

    async def accept(
        self,
        job: str,
        who: Principal,
        accepted: Acceptance,
        quote: Quote,
        reply: IdempotencyKey | None,
    ) -> JobRow:
        """The job of what was shown, at no more than was shown."""
        return await self.bids.accept(job, who, accepted, quote, reply)

    async def decide_pending(self) -> None:
        """Go on with jobs that waited for a decision when the service stopped."""
        for one in await self.call(lambda zone: list(zone.pending_jobs.values())):
            self.bids.pending_jobs.enqueue(one.id, one.owner, one.training, one.request)

    async def abandon(self, job: str, why: str) -> None:
        """End a job, unless it is over, that the service cannot bring to its end."""
        await self.call(lambda zone: zone.abandon(job, why))

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self.bids.pending_jobs.close()
