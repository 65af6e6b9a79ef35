"""Request side of a zone: quotes, previews and submissions."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.run.data.client import DataError
from auctune.service.accounts.keys import Principal
from auctune.service.files.repository import FileRecord
from auctune.service.jobs.budget_turns import BudgetTurns
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.quotes import Quote
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.training import Training
from auctune.service.tasks import TaskSet
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.explainer import Explainer
from auctune.service.zones.core.offers import Alternatives, ZoneQuote
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.core.zone import AnyZone, Asks, Zone


class AnswersRequests(Protocol):
    """Shows prices or estimates, and takes jobs."""

    async def preload(self, file: FileRecord) -> bool:
        """Look at a new upload, so that bids for it need not wait.

        Return whether it is data of the kind that the zone trains on; if not, nothing is noted.
        """
        ...

    async def quote(self, who: Principal, request: JobRequest) -> ZoneQuote:
        """What a job would cost here.

        Raises:
            InputError: if it is no job that could be decided on; a bid may be left out.
        """
        ...

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobReadModel:
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
    ) -> JobReadModel:
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
    ) -> JobReadModel:
        """The job of a line that was shown, at no more than was shown.

        Raises:
            InputError: if there is no such line, or it is of another job.
            QuoteChangedError: if it is not to be had any more.
        """
        ...


# A zone as routes and pages see it, whatever its kind.


class NodeAdmin(Protocol):
    """A zone's nodes, as an operator sees them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their ids."""
        ...

    async def drain(self, node: str) -> None:
        """Take one off the market."""
        ...

    async def return_node(self, node: str) -> None:
        """Put one on the market again."""
        ...


class OpenZone(AnswersRequests, Protocol):
    """One zone."""

    @property
    def name(self) -> str:
        """Unique in the service."""
        ...

    @property
    def kind(self) -> str:
        """Of which kind it is: a name of the table of kinds."""
        ...

    @property
    def base(self) -> str:
        """Name of the base model that it trains."""
        ...

    @property
    def actor(self) -> ZoneActor[AnyZone]:
        """Decides."""
        ...

    @property
    def clock(self) -> SlotClock:
        """Its slots."""
        ...

    @property
    def num_slots(self) -> int:
        """How many slots from now on it looks ahead."""
        ...

    @property
    def num_nodes(self) -> int:
        """How many nodes it has at most."""
        ...

    @property
    def nodes(self) -> NodeAdmin | None:
        """Those that an operator prices and drains; none: it has none of its own."""
        ...

    @property
    def explainer(self) -> Explainer[Any] | None:
        """Explains its decisions; none: they are not explained."""
        ...

    async def inspect(self) -> dict[str, Any]:
        """Return what an operator sees of the zone: `ZoneState` of the API."""
        ...

    async def decide_pending(self) -> None:
        """Decide on the jobs that were pending when the service stopped."""
        ...

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may.

        For people, of the zone: "has no sites", "needs market.deadline".
        """
        ...

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        ...


# Pending jobs: decided on in turn of their budgets, some after their data were inspected.
#
# What waits is on record already. Whatever goes wrong with it ends as the job's own failure, or
# leaves it on record as received, to be taken up again at the next start.

_log = structlog.get_logger(__name__)

B = TypeVar("B", bound=Asks)
T = TypeVar("T")
Z = TypeVar("Z", bound=Zone[Any, Any])

Record = dict[str, Any]
BidFactory = Callable[[str, str, Training, Record], Awaitable[B]]
"""Looks at a job's files; told its id, its owner, what it trains and its request on record."""


class PendingJobs(Generic[Z, B]):
    """Of one zone.

    Args:
        actor: decides.
        turns: those of one budget pass one after the other.
        check_there: that all files of a bid are there; called on the actor.
        make_bid: of a job that was received.
    """

    def __init__(
        self,
        actor: ZoneActor[Z],
        turns: BudgetTurns,
        check_there: Callable[[B], None],
        make_bid: BidFactory[B],
    ) -> None:
        self._actor = actor
        self._turns = turns
        self._check_there = check_there
        self._make_bid = make_bid
        self._background = TaskSet()

    async def decide_in_turn(self, bid: B, decide: Callable[[Z], T]) -> T:
        """Have the zone decide once it is the bid's turn.

        Raises:
            InputError: if a file of its is gone by then.
        """
        return await self._turns.in_turn(
            bid.owner, self._actor, lambda: self._check_there(bid), decide
        )

    async def receive(
        self,
        job: str,
        owner: str,
        training: Training,
        request: Record,
        reply: IdempotencyKey | None,
    ) -> JobReadModel:
        """Put a job on record whose files are not known yet, and decide on it later."""
        row = await self._actor.call(
            lambda zone: zone.receive(job, owner, request, training, reply)
        )
        self.enqueue(job, owner, training, request)
        return row

    def enqueue(self, job: str, owner: str, training: Training, request: Record) -> None:
        """Look at a received job's files, then decide on it; also after a restart."""
        self._background.spawn(self._decide(job, owner, training, request))

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self._background.close()

    async def _decide(self, job: str, owner: str, training: Training, request: Record) -> None:
        try:
            bid = await self._make_bid(job, owner, training, request)
            await self.decide_in_turn(bid, lambda zone: zone.decide_received(bid))
        except InputError as error:
            refusal = error
            await self._actor.call(lambda zone: zone.reject_pending(job, refusal))
        except DataError as error:
            await self._give_up(job, "data_failed", str(error), "training_file")
        except AuctuneError as error:
            # The job stays on record as received, and is taken up again at the next start.
            _log.error("a job could not be decided on", job=job, reason=str(error))
        except Exception:
            # A mistake of ours would be made again: its owner shall not wait for it.
            _log.exception("a job could not be decided on", job=job)
            reason = "the service made a mistake; it is on record, and nothing was charged"
            await self._give_up(job, "internal", reason, None)

    async def _give_up(self, job: str, code: str, reason: str, param: str | None) -> None:
        """End a job that is not decided on yet: nothing is held for it, and nothing was paid."""

        def end(zone: AnyZone) -> None:
            if job in zone.pending_jobs:
                zone.fail(job, code, reason, param, refund=False)

        await self._actor.call(end)


# The bids of a kind.


class TakesBids(AnswersRequests, Protocol):
    """Shows prices or estimates, and takes bids."""

    @property
    def pending_jobs(self) -> PendingJobs[Any, Any]:
        """Jobs that are to be decided on."""
        ...


# What gateways of all kinds share.

Q = TypeVar("Q", bound=TakesBids)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneGateway(ABC, Generic[Z, Q]):
    """One zone; its kind makes it an `OpenZone`, and says which requests it takes.

    Attributes:
        actor: decides.
        bids: answers requests.
        nodes: those that an operator prices and drains; none: it has none of its own.
        explainer: of its decisions; none: they are not explained.
    """

    actor: ZoneActor[Z]
    bids: Q
    nodes: NodeAdmin | None = None
    explainer: Explainer[Any] | None = None

    @abstractmethod
    def _check(self, request: JobRequest) -> None:
        """Refuse what means nothing here.

        Raises:
            InputError: naming the first of it.
        """

    @property
    @abstractmethod
    def kind(self) -> str:
        """Name of its kind."""

    @abstractmethod
    def _state_of(self, zone: Z) -> Record:
        """Return what an operator sees of a zone of this kind; called on the actor's thread."""

    @property
    def name(self) -> str:
        """Unique in the service."""
        return self.actor.name

    async def inspect(self) -> Record:
        """Return what an operator sees of the zone: `ZoneState` of the API."""
        found = await self.actor.call(self._state_of)
        return {"kind": self.kind, "zone": self.name, **found}

    async def call(self, run: Callable[[Z], T]) -> T:
        """What `run` comes to on the actor's thread, once it is on record."""
        return await self.actor.call(run)

    async def preload(self, file: FileRecord) -> bool:
        """Look at a new upload; see `AnswersRequests.preload`."""
        return await self.bids.preload(file)

    async def quote(self, who: Principal, request: JobRequest) -> ZoneQuote:
        """What a job would cost, or come to, here."""
        self._check(request)
        return await self.bids.quote(who, request)

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobReadModel:
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
    ) -> JobReadModel:
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
    ) -> JobReadModel:
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
