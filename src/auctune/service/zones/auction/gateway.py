"""Request side of an auction zone.

Where the files were looked at before, the decision is the answer. Where they were not, or a vendor
must be asked, the job is on record as `validating_files` first, and decided as soon as they are.
"""

from dataclasses import dataclass, replace
from typing import Any

from auctune.domain import Money, PriceMenu
from auctune.domain.menu import MenuLine
from auctune.domain.money import ZERO
from auctune.service.accounts.keys import Principal
from auctune.service.accounts.limits import KeyedLocks
from auctune.service.config.zone import AUCTION
from auctune.service.files.repository import FileRecord
from auctune.service.identifiers import new_id
from auctune.service.jobs.budget_turns import BudgetTurns
from auctune.service.jobs.datasets import TrainingData
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.quotes import Quote, QuoteChangedError, QuoteStore
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.terms import (
    bid_amount,
    deadline_of,
    has_deadline,
    reject_unsupported,
    request_record,
    unsupported_field,
    validate_amounts,
)
from auctune.service.jobs.training import Defaults, Training, resolve_training
from auctune.service.zones.auction.bid import Bid
from auctune.service.zones.auction.supply import Supply
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.acceptance import (
    last_resort,
    renamed_fields,
    resolve_line,
    why_changed,
)
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.gateway import PendingJobs, ZoneGateway
from auctune.service.zones.core.offers import (
    NO_ALTERNATIVES,
    Alternatives,
    DatasetQuote,
    MenuOffer,
    ZoneQuote,
)
from auctune.service.zones.core.read_model import JobReadModel


class AuctionBids:
    """Shows prices of one zone, and takes bids and lines that were shown.

    Args:
        actor: decides.
        clock: its slots.
        num_slots: that it looks ahead.
        defaults: what is chosen where requests do not.
        files: of jobs.
        turns: those of one budget pass one after the other.
        quotes: that were shown.
    """

    def __init__(
        self,
        actor: ZoneActor[AuctionZone],
        clock: SlotClock,
        num_slots: int,
        defaults: Defaults,
        files: TrainingData,
        turns: BudgetTurns,
        quotes: QuoteStore,
    ) -> None:
        self._actor = actor
        self._clock = clock
        self._num_slots = num_slots
        self._defaults = defaults
        self._files = files
        self._turns = turns
        self._quotes = quotes
        self.pending_jobs = PendingJobs(actor, turns, self._check_there, self._received_bid)
        self._quoting = KeyedLocks()

    async def preload(self, file: FileRecord) -> bool:
        """Look at a new upload; see `AnswersRequests.preload`."""
        return await self._files.preload(file, self._defaults.length)

    async def quote(self, who: Principal, request: JobRequest) -> ZoneQuote:
        """What a job would cost, by the time at which it is finished.

        Raises:
            InputError: as `preview`; a bid and a deadline may be left out.
        """
        # What it bids does not count, but what is no amount of money is a mistake of the asker's.
        validate_amounts(request)
        now = self._clock.now()
        horizon = now + self._num_slots * self._clock.slot_seconds
        deadline = deadline_of(request, now) if has_deadline(request) else horizon
        bid = await self._appraised(who, request, ZERO, deadline)
        # A menu takes tens of milliseconds of the actor: one at a time of each user.
        async with self._quoting.acquire((who.user,)):
            menu = await self._actor.call(lambda zone: zone.quote(bid))
        notes = bid.size.notes(bid.training.max_length)
        return ZoneQuote(bid.training, deadline, MenuOffer(menu, self._clock), notes)

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobReadModel:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        amount, deadline = bid_amount(request), deadline_of(request, self._clock.now())
        bid = await self._appraised(who, request, amount, deadline, alternatives)
        return await self._actor.call(lambda zone: zone.preview(bid))

    async def submit(
        self,
        job: str,
        who: Principal,
        request: JobRequest,
        reply: IdempotencyKey | None,
        alternatives: Alternatives,
    ) -> JobReadModel:
        """A job, as it stands once this is on record.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        amount, deadline = bid_amount(request), deadline_of(request, self._clock.now())
        training = resolve_training(request, self._defaults)
        size = await self._files.cached_size(training, who.user)
        shown = request_record(request, who, amount, deadline, alternatives)
        if size is None:
            return await self.pending_jobs.receive(job, who.user, training, shown, reply)
        bid = self._bid(job, who.user, training, DatasetQuote(size), shown, reply)
        return await self.pending_jobs.decide_in_turn(bid, lambda zone: zone.decide(bid))

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
        line, request = quoted_line(accepted, quote)
        deadline = last_resort(quote, self._clock.slot_end(line.deadline))
        amount = line.price if request.market.bid is None else bid_amount(request)
        shown = request_record(request, who, amount, deadline, quote.alternatives)
        found = await self._files.appraise(quote.training, who.user)
        bid = self._bid(job, who.user, quote.training, found, shown, reply)
        row = await self.pending_jobs.decide_in_turn(bid, lambda zone: zone.accept(bid, line))
        if row is None:
            why = why_changed(line.schedule.start, self._clock)
            raise QuoteChangedError(why, await self._again(quote, bid))
        return row

    async def _again(self, quote: Quote, bid: Bid) -> Quote:
        """What is to be had now in place of a quote."""
        again = replace(bid, bid=ZERO, deadline=quote.deadline)
        menu = await self._actor.call(lambda zone: quote_if_early(zone, again))
        offer = MenuOffer(menu, self._clock)
        priced = ZoneQuote(quote.training, quote.deadline, offer, quote.notes)
        return self._quotes.replace(quote, priced)

    async def _appraised(
        self,
        who: Principal,
        request: JobRequest,
        amount: Money,
        deadline: float,
        alternatives: Alternatives = NO_ALTERNATIVES,
    ) -> Bid:
        training = resolve_training(request, self._defaults)
        found = await self._files.appraise(training, who.user)
        shown = request_record(request, who, amount, deadline, alternatives)
        return self._bid(new_id("ftjob"), who.user, training, found, shown)

    async def _received_bid(
        self, job: str, owner: str, training: Training, request: dict[str, Any]
    ) -> Bid:
        found = await self._files.appraise(training, owner)
        return self._bid(job, owner, training, found, request)

    def _check_there(self, bid: Bid) -> None:
        self._files.ensure_not_deleted(bid.training)

    def _bid(
        self,
        job: str,
        owner: str,
        training: Training,
        found: DatasetQuote,
        request: dict[str, Any],
        reply: IdempotencyKey | None = None,
    ) -> Bid:
        return Bid(
            job=job,
            owner=owner,
            training=training,
            size=found.size,
            bid=Money(request["bid"]),
            deadline=request["deadline"],
            offers=found.offers,
            request=request,
            left=lambda: self._turns.left(owner),
            reply=reply,
        )


# The gateway.

# Terms of other kinds. A value counts as a bid, and a cap on the cost limits the bid.
_FOREIGN = ("target_loss", "sites")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuctionGateway(ZoneGateway[AuctionZone, AuctionBids]):
    """One zone.

    Attributes:
        supply: what it offers.
        clock: its slots.
        files: of its jobs.
    """

    supply: Supply
    clock: SlotClock
    files: TrainingData

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        return AUCTION

    @property
    def base(self) -> str:
        """Name of the base model that it trains."""
        return self.supply.base

    @property
    def num_slots(self) -> int:
        """How many slots from now on it looks ahead."""
        return self.supply.cluster.slots

    @property
    def num_nodes(self) -> int:
        """How many nodes it has."""
        return len(self.supply.cluster.nodes)

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        foreign = unsupported_field(request, *_FOREIGN)
        if foreign is not None:
            return f"does not support {foreign}"
        if request.market.repair and not self.files.has_vendors:
            return "has no vendor that could repair data"
        return None

    def _check(self, request: JobRequest) -> None:
        reject_unsupported(request, self.name, AUCTION, *_FOREIGN)

    def _state_of(self, zone: AuctionZone) -> dict[str, Any]:
        zone.begin_slots()
        state = zone.mechanism.state()
        lost, drained = zone.state.lost, zone.state.drained

        def condition(node: str) -> str:
            return "drained" if node in drained else "lost" if node in lost else "up"

        return {
            "first_slot": state.first_slot,
            "first_begins_at": zone.clock.slot_start(state.first_slot),
            "slot_seconds": zone.clock.slot_seconds,
            "nodes": [
                {"id": node.id, "type": node.type, "state": condition(node.id)}
                for node in zone.supply.cluster.nodes
            ],
            # Arrays [slot, node].
            "compute_price": state.compute_price.tolist(),
            "memory_price": state.memory_price.tolist(),
            "compute_used": state.compute_used.tolist(),
            "memory_used": state.memory_used.tolist(),
        }


# Accepting a line of a quote.


def quote_if_early(zone: AuctionZone, bid: Bid) -> PriceMenu:
    """A menu, which is empty where no time is left."""
    return zone.quote(bid) if zone.has_slot_before(bid.deadline) else PriceMenu(bid.job, ())


def quoted_line(accepted: Acceptance, quote: Quote) -> tuple[MenuLine, JobRequest]:
    """The line that a request accepts, and the request with all that was quoted filled in.

    Raises:
        InputError: if there is no such line, or the request says something else.
    """
    assert isinstance(quote.offer, MenuOffer)
    line = resolve_line(accepted, quote, quote.offer.menu.lines)
    own = {**renamed_fields(accepted), "market": accepted.market}
    return line, quote.request.model_copy(update=own)
