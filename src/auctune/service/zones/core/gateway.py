"""Request side of a zone: checks requests, builds bids from them and has the actor decide.

If a job's data have been inspected, the decision is the response. Otherwise the job is recorded as
pending, and decided on once they are. Zones that sell plans at binding prices have a `MenuGateway`,
zones that meter what a job uses an `EstimateGateway`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import structlog

from auctune.domain import AuctuneError, InputError, Money
from auctune.domain.data_size import job_notes
from auctune.domain.money import ZERO
from auctune.domain.training import module_notes
from auctune.engine.data.client import DataError
from auctune.engine.unix_time import SlotClock, to_rfc3339
from auctune.service.accounts.budgets import BudgetLocks
from auctune.service.accounts.registry import Principal
from auctune.service.datasets.repairer import DatasetQuote
from auctune.service.fair_queue import FairQueue
from auctune.service.files.repository import FileRecord
from auctune.service.identifiers import new_id
from auctune.service.jobs.quotes import (
    NO_ALTERNATIVES,
    Alternatives,
    Offer,
    Quote,
    QuoteChangedError,
    QuoteStore,
    ZoneQuote,
)
from auctune.service.jobs.request import Acceptance, IdempotencyKey, JobRequest
from auctune.service.jobs.terms import (
    JobValue,
    Terms,
    bid_amount,
    deadline_of,
    has_deadline,
    max_cost,
    request_record,
    required_cap,
    validate_amounts,
    value_of,
)
from auctune.service.jobs.training import Defaults, Submission, Training, ZoneBid, resolve_training
from auctune.service.storage.committer import retry_outages
from auctune.service.storage.engine import StoreError
from auctune.service.storage.event_log import Record
from auctune.service.storage.queries import JobReadModel
from auctune.service.tasks import TaskSet
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.job import Estimate, EstimateOffer
from auctune.service.zones.core.menu import (
    MenuOffer,
    OfferLine,
    accepted_request,
    degradation_reason,
    quoted_estimate,
    renamed_fields,
    resolve_line,
)
from auctune.service.zones.core.sections import JobName, ZoneView
from auctune.service.zones.core.snapshots import Explainer
from auctune.service.zones.core.zone import Zone

_log = structlog.get_logger(__name__)

# Quotes that a user may have waiting in a zone: those of a few forms of the page.
_MAX_WAITING_QUOTES = 8

B = TypeVar("B", bound=ZoneBid)
"""Bid: what the zone decides on."""
D = TypeVar("D")
"""Result of inspecting a job's data."""
D_co = TypeVar("D_co", covariant=True)
E = TypeVar("E")
"""Inputs of an estimate."""
P = TypeVar("P")
"""Line of the mechanism's menu."""
T = TypeVar("T")
Z = TypeVar("Z", bound=Zone[Any, Any])


class JobData(Protocol[D_co]):
    """Data of a zone's jobs: ownership, existence and size."""

    def ensure_not_deleted(self, submission: Submission) -> None:
        """Check that no file of a job is being deleted. Thread-safe."""
        ...

    async def cached(self, submission: Submission) -> D_co | None:
        """Return the result of earlier inspections, or None if a file has not been inspected."""
        ...

    async def inspect(self, submission: Submission) -> D_co:
        """Inspect the data of a job: read, tokenize, request offers of vendors."""
        ...

    async def preload(self, file: FileRecord) -> bool:
        """Inspect a new upload so that bids need not wait; note with the file what is wrong.

        Return whether it holds data of the kind that the zone trains on.
        """
        ...


@dataclass(frozen=True, slots=True)
class GatewayContext(Generic[Z, D]):
    """Dependencies of a gateway that all kinds share.

    Attributes:
        num_slots: horizon, in slots from now.
    """

    actor: ZoneActor[Z]
    clock: SlotClock
    num_slots: int
    defaults: Defaults
    data: JobData[D]
    budgets: BudgetLocks
    quotes: QuoteStore


class ZoneGateway(ABC, Generic[Z, B, D]):
    """Request side of one zone.

    Args:
        num_nodes: maximum number of nodes.

    Attributes:
        kind: name of the zone's kind.
        terms: fields of requests that the kind requires, and does not support.
        nodes: ids of the nodes that an operator can drain; None if the zone has none of its own.
    """

    kind: str
    terms: Terms
    nodes: tuple[str, ...] | None = None

    def __init__(
        self,
        context: GatewayContext[Z, D],
        base: str,
        num_nodes: int,
        explainer: Explainer[Any] | None = None,
    ) -> None:
        self.actor = context.actor
        self.clock = context.clock
        self.num_slots = context.num_slots
        self.base = base
        self.num_nodes = num_nodes
        self.explainer = explainer
        # A quote takes tens of milliseconds of the actor's thread, or seconds of another.
        self._quoting = FairQueue("quotes", 1, _MAX_WAITING_QUOTES)
        self._defaults = context.defaults
        self._data = context.data
        self._budgets = context.budgets
        self._quotes = context.quotes
        self._tasks = TaskSet()

    # Provided by each kind.

    @abstractmethod
    def _view(self, zone: Z, job_name: JobName) -> ZoneView:
        """Return an operator's view of the zone; called on the actor's thread."""

    @abstractmethod
    def _record(self, who: Principal, request: JobRequest, alternatives: Alternatives) -> Record:
        """Return what is recorded of a request: a bid can be built from it after a restart."""

    @abstractmethod
    def _quote_record(self, who: Principal, request: JobRequest) -> Record:
        """Return the record of a request for a quote, which may lack a bid or a cap."""

    @abstractmethod
    async def _bid(self, submission: Submission, data: D) -> B:
        """Build the bid that the zone decides on. Metered kinds make their estimate here."""

    @abstractmethod
    async def _offer(self, submission: Submission, data: D) -> Offer:
        """Return the zone's offer for a request for a quote."""

    @abstractmethod
    async def accept(
        self,
        job: str,
        who: Principal,
        accepted: Acceptance,
        quote: Quote,
        key: IdempotencyKey | None,
    ) -> JobReadModel:
        """Submit the job of a quote on the terms that were quoted; see `submit`.

        If they are no longer available, QuoteChangedError has the current offer.
        """

    def _training(self, request: JobRequest) -> Training:
        return resolve_training(request, self._defaults)

    def _notes(self, data: D, training: Training) -> tuple[str, ...]:
        """Return notes on the work, the data and the adapter for their owner."""
        if not isinstance(data, DatasetQuote):
            return module_notes(training.target_modules)
        return job_notes(
            data.size,
            epochs=training.epochs,
            max_length=training.max_length,
            target_modules=training.target_modules,
        )

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Return why the zone cannot take a job, by its request alone, or None: "needs x"."""
        return self.terms.unsupported_reason(request)

    async def drain(self, node: str) -> None:
        """Take one of `nodes` off the market; its jobs are replanned or refunded."""
        raise NotImplementedError

    async def return_node(self, node: str) -> None:
        """Put a drained node on the market again."""
        raise NotImplementedError

    # The same for all kinds.

    @property
    def name(self) -> str:
        """Name of the zone, unique in the service."""
        return self.actor.name

    async def inspect(self, job_name: JobName = str) -> ZoneView:
        """Return an operator's view of the zone, in which jobs have these labels."""
        return await self.actor.call(lambda zone: self._view(zone, job_name))

    async def preload(self, file: FileRecord) -> bool:
        """Inspect a new upload; see `JobData.preload`."""
        return await self._data.preload(file)

    async def quote(self, who: Principal, request: JobRequest) -> ZoneQuote:
        """Return the zone's offer for a job; a bid or cap may be missing."""
        self.terms.check(request, self.name, self.kind)
        # A quote does not depend on the bid, but a malformed amount is an error.
        validate_amounts(request)
        record, training = self._quote_record(who, request), self._training(request)
        submission = Submission(new_id("ftjob"), who.user, training, record)
        data = await self._data.inspect(submission)
        offer = await self._offer(submission, data)
        return ZoneQuote(training, record["deadline"], offer, self._notes(data, training))

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobReadModel:
        """Return a job as it would be decided on, without recording anything."""
        submission = self._submission(new_id("ftjob"), who, request, alternatives)
        bid = await self._bid(submission, await self._data.inspect(submission))
        return await self.actor.call(lambda zone: zone.preview(bid))

    async def submit(
        self,
        job: str,
        who: Principal,
        request: JobRequest,
        key: IdempotencyKey | None,
        alternatives: Alternatives,
    ) -> JobReadModel:
        """Submit a job; return its row once that is committed.

        `alternatives` are the offers of all zones if this one was chosen; they are recorded too.
        """
        submission = self._submission(job, who, request, alternatives, key)
        data = await self._data.cached(submission)
        if data is None:
            return await self._receive(submission)
        bid = await self._bid(submission, data)
        return await self._decide(submission, lambda zone: zone.decide(bid))

    async def decide_pending(self) -> None:
        """Decide on the jobs that were pending when the service stopped."""
        for one in await self.actor.call(lambda zone: list(zone.pending_jobs.values())):
            self._enqueue(Submission(one.id, one.owner, one.training, one.request))

    async def close(self) -> None:
        """Stop background work; pending jobs are recorded, and decided on after the next start."""
        await self._tasks.close()

    def _submission(
        self,
        job: str,
        who: Principal,
        request: JobRequest,
        alternatives: Alternatives,
        key: IdempotencyKey | None = None,
    ) -> Submission:
        self.terms.check(request, self.name, self.kind)
        record = self._record(who, request, alternatives)
        return Submission(job, who.user, self._training(request), record, key)

    def _bid_fields(self, submission: Submission) -> dict[str, Any]:
        """Return the fields of `ZoneBid`."""
        payer = submission.owner, submission.api_key
        return {
            "job": submission.job,
            "owner": submission.owner,
            "training": submission.training,
            "request": submission.record,
            "remaining_budget": lambda: self._budgets.remaining(*payer),
            "idempotency_key": submission.key,
        }

    async def _decide(self, submission: Submission, decide: Callable[[Z], T]) -> T:
        """Have the zone decide, holding the locks of the owner's budgets."""

        def check_and_decide(zone: Z) -> T:
            # Waiting for the locks may have taken long. Nothing is deleted between this check and
            # the decision: deletions query the actor for files in use.
            self._data.ensure_not_deleted(submission)
            return decide(zone)

        async with self._budgets.acquire(submission.owner, submission.api_key):
            return await self.actor.call(check_and_decide)

    async def _receive(self, one: Submission) -> JobReadModel:
        """Record a job as pending, and decide on it in the background."""
        row = await self.actor.call(
            lambda zone: zone.receive(one.job, one.owner, one.record, one.training, one.key)
        )
        self._enqueue(one)
        return row

    def _enqueue(self, submission: Submission) -> None:
        # The key is recorded with the pending job; the decision must not record it again.
        pending = replace(submission, key=None, is_pending=True)
        self._tasks.spawn(retry_outages(partial(self._decide_pending, pending)))

    async def _decide_pending(self, submission: Submission) -> None:
        job = submission.job
        try:
            bid = await self._bid(submission, await self._data.inspect(submission))
            await self._decide(submission, lambda zone: zone.decide_received(bid))
        except InputError as error:
            refusal = error
            await self.actor.call(lambda zone: zone.reject_pending(job, refusal))
        except DataError as error:
            await self._fail_pending(job, "data_failed", str(error), "training_file")
        except StoreError:
            raise
        except AuctuneError as error:
            # The job remains pending, and is decided on after the next start.
            _log.error("deciding on a pending job failed", job=job, reason=str(error))
        except Exception:
            # A bug would recur at the next start: the owner must not wait for it.
            _log.exception("deciding on a pending job failed", job=job)
            reason = "internal error; it has been logged, and nothing was charged"
            await self._fail_pending(job, "internal", reason, None)

    async def _fail_pending(self, job: str, code: str, reason: str, param: str | None) -> None:
        """Fail a pending job: nothing is reserved for it, and nothing was paid."""

        def fail(zone: Z) -> None:
            if job in zone.pending_jobs:
                zone.fail(job, code, reason, param, refund=False)

        await self.actor.call(fail)

    def _requoted(self, quote: Quote, offer: Offer) -> Quote:
        """Replace a quote by the offer that is available now."""
        now = ZoneQuote(quote.training, quote.deadline, offer, quote.notes)
        return self._quotes.replace(quote, now)


AnyGateway = ZoneGateway[Any, Any, Any]


class MenuGateway(ZoneGateway[Z, B, D], Generic[Z, B, D, P]):
    """Gateway of a zone that quotes menus: plans by finish time at binding prices.

    A line can be accepted until the first slot of its plan begins, as long as the plan is free and
    does not cost more than quoted.
    """

    @abstractmethod
    async def _menu(self, bid: B, *, may_be_empty: bool = False) -> tuple[OfferLine[P], ...]:
        """Return the menu for a bid; what it bids does not count.

        `may_be_empty`: a deadline that leaves no slot is not an error.
        """

    @abstractmethod
    def _accept(self, zone: Z, bid: B, plan: P) -> JobReadModel | None:
        """Admit a job with a quoted plan; None if that is no longer available."""

    def _priced_record(
        self,
        who: Principal,
        request: JobRequest,
        amount: Money | None,
        deadline: float,
        alternatives: Alternatives = NO_ALTERNATIVES,
    ) -> Record:
        return request_record(request, who, amount, deadline, alternatives)

    def _record(self, who: Principal, request: JobRequest, alternatives: Alternatives) -> Record:
        amount, deadline = bid_amount(request), deadline_of(request, self.clock.now())
        return self._priced_record(who, request, amount, deadline, alternatives)

    def _quote_record(self, who: Principal, request: JobRequest) -> Record:
        now = self.clock.now()
        horizon = now + self.num_slots * self.clock.slot_seconds
        deadline = deadline_of(request, now) if has_deadline(request) else horizon
        return self._priced_record(who, request, ZERO, deadline)

    async def _offer(self, submission: Submission, data: D) -> Offer:
        return MenuOffer(await self._menu(await self._bid(submission, data)), self.clock)

    async def accept(
        self,
        job: str,
        who: Principal,
        accepted: Acceptance,
        quote: Quote,
        key: IdempotencyKey | None,
    ) -> JobReadModel:
        assert isinstance(quote.offer, MenuOffer)
        line: OfferLine[P] = resolve_line(accepted, quote, quote.offer.lines)
        # The data remain at the sites that were quoted.
        quoted = quote.request.market
        kept = {"sites": quoted.sites, "deadline": quoted.deadline, "zone": quoted.zone}
        market = accepted.market.model_copy(update=kept)
        changes = {**renamed_fields(accepted), "market": market}
        request = quote.request.model_copy(update=changes)
        # A failed slot can be replaced until the deadline that was quoted for.
        is_flexible = has_deadline(quote.request)
        deadline = quote.deadline if is_flexible else self.clock.slot_end(line.finish)
        amount = line.price if request.market.bid is None else bid_amount(request)
        record = self._priced_record(who, request, amount, deadline, quote.alternatives)
        submission = Submission(job, who.user, quote.training, record, key)
        data = await self._data.inspect(submission)
        bid = await self._bid(submission, data)
        row = await self._decide(submission, lambda zone: self._accept(zone, bid, line.plan))
        if row is not None:
            return row
        if line.start <= self.clock.slot():
            began = to_rfc3339(self.clock.slot_start(line.start))
            why = f"the first slot of this line's plan began at {began}"
        else:
            why = "the plan of this line is no longer available at its price"
        record = {**record, "bid": str(ZERO), "deadline": quote.deadline}
        bid = await self._bid(replace(submission, record=record), data)
        lines = await self._menu(bid, may_be_empty=True)
        raise QuoteChangedError(why, self._requoted(quote, MenuOffer(lines, self.clock)))


class EstimateGateway(ZoneGateway[Z, B, DatasetQuote], Generic[Z, B, E]):
    """Gateway of a metered zone: it admits a job by an estimate, and charges for what it uses.

    Estimates are not binding. When one is accepted, the job is estimated again, and admitted if
    that is not worse than quoted; see `auctune.service.zones.core.menu.degradation_reason`.
    """

    @abstractmethod
    def _valued_record(
        self, who: Principal, request: JobRequest, value: JobValue, alternatives: Alternatives
    ) -> Record:
        """Return what is recorded of a request, without `max_cost`."""

    @abstractmethod
    async def _estimate(self, submission: Submission, data: DatasetQuote) -> tuple[Estimate, E]:
        """Return an estimate, and the inputs that it was made from. Takes a while."""

    @abstractmethod
    def _estimated_bid(
        self, submission: Submission, data: DatasetQuote, estimate: Estimate, inputs: E
    ) -> B:
        """Build a bid from an estimate."""

    @abstractmethod
    def _check_cap(self, cap: Money, quoted: Estimate | None) -> None:
        """Refuse a cap with which a job, or an accepted estimate, cannot be admitted."""

    def _accept(self, zone: Z, bid: B) -> JobReadModel | None:
        """Decide on an accepted estimate; None if the zone has no room for the job now."""
        row: JobReadModel = zone.decide(bid)
        return row

    def _record(self, who: Principal, request: JobRequest, alternatives: Alternatives) -> Record:
        value = value_of(request, self.clock.now())
        record = self._valued_record(who, request, value, alternatives)
        cap = required_cap(request)
        self._check_cap(cap, None)
        return _with_cap(record, cap)

    def _quote_record(self, who: Principal, request: JobRequest) -> Record:
        value = value_of(request, self.clock.now())
        record = self._valued_record(who, request, value, NO_ALTERNATIVES)
        return _with_cap(record, max_cost(request))

    async def _offer(self, submission: Submission, data: DatasetQuote) -> Offer:
        estimate, _ = await self._estimate(submission, data)
        return EstimateOffer(estimate, cap_of(submission.record))

    async def _bid(self, submission: Submission, data: DatasetQuote) -> B:
        return self._estimated_bid(submission, data, *await self._estimate(submission, data))

    async def accept(
        self,
        job: str,
        who: Principal,
        accepted: Acceptance,
        quote: Quote,
        key: IdempotencyKey | None,
    ) -> JobReadModel:
        request, cap = accepted_request(accepted, quote)
        self._check_cap(cap, quoted_estimate(quote))
        # A span such as "+2h" counts from when the quote was made.
        value = replace(value_of(request, quote.at), deadline=quote.deadline)
        record = self._valued_record(who, request, value, quote.alternatives)
        quoted_cap = max_cost(quote.request)
        uncapped = Submission(job, who.user, quote.training, _with_cap(record, quoted_cap), key)
        data = await self._data.inspect(uncapped)
        estimate, inputs = await self._estimate(uncapped, data)
        why = degradation_reason(quote, estimate)
        if why is None:
            submission = replace(uncapped, record=_with_cap(record, cap))
            if cap != quoted_cap:
                bid = await self._bid(submission, data)
            else:
                bid = self._estimated_bid(submission, data, estimate, inputs)
            row = await self._decide(submission, lambda zone: self._accept(zone, bid))
            if row is not None:
                return row
            why = "the zone now runs its maximum number of jobs"
        raise QuoteChangedError(why, self._requoted(quote, EstimateOffer(estimate, quoted_cap)))


def cap_of(record: Record) -> Money | None:
    """Return the cap in the record of a request to a metered zone."""
    cap = record["max_cost"]
    return None if cap is None else Money(cap)


def _with_cap(record: Record, cap: Money | None) -> Record:
    return {**record, "max_cost": None if cap is None else str(cap)}
