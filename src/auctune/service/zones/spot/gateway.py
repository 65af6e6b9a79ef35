"""Request side of a spot zone: estimates and bids.

Estimates take a while, so they are made on a thread of their own, users in round robin; the actor
decides by them.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from auctune.domain import InputError, Money
from auctune.domain.data_size import DataSize
from auctune.service.accounts.fair_queue import FairQueue
from auctune.service.accounts.keys import Principal
from auctune.service.config.zone import SPOT
from auctune.service.files.repository import FileRecord
from auctune.service.identifiers import new_id
from auctune.service.jobs.budget_turns import BudgetTurns
from auctune.service.jobs.datasets import TrainingData
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.quotes import Quote, QuoteChangedError, QuoteStore
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.terms import (
    JobValue,
    has_deadline,
    max_cost,
    reject_unsupported,
    request_record,
    required_cap,
    unsupported_field,
    value_of,
)
from auctune.service.jobs.training import Defaults, Training, resolve_training
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.gateway import PendingJobs, ZoneGateway
from auctune.service.zones.core.metered import (
    Estimate,
    EstimateOffer,
    accepted_request,
    degradation_reason,
    quoted_estimate,
)
from auctune.service.zones.core.offers import NO_ALTERNATIVES, Alternatives, ZoneQuote
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.spot.bid import EstimateInputs, SpotBid
from auctune.service.zones.spot.supply import SpotSupply
from auctune.service.zones.spot.zone import SpotZone, no_slot

# Estimates of a user that may wait: a few forms of a page.
_WAITING_ESTIMATES = 8


class SpotBids:
    """Takes bids for one zone.

    Args:
        actor: decides.
        rental: what it offers.
        defaults: what is chosen where requests do not.
        files: of jobs.
        turns: those of one budget pass one after the other.
        quotes: that were shown.
        now: tells unix time.
    """

    def __init__(
        self,
        actor: ZoneActor[SpotZone],
        rental: SpotSupply,
        defaults: Defaults,
        files: TrainingData,
        turns: BudgetTurns,
        quotes: QuoteStore,
        now: Callable[[], float],
    ) -> None:
        self._actor = actor
        self._rental = rental
        self._defaults = defaults
        self._files = files
        self._turns = turns
        self._quotes = quotes
        self._now = now
        self._estimates = FairQueue("estimate", _WAITING_ESTIMATES)
        self.pending_jobs = PendingJobs(actor, turns, self._check_there, self._received_bid)

    async def quote(self, who: Principal, request: JobRequest) -> ZoneQuote:
        """What a job is likely to come to.

        Raises:
            InputError: if it is no job that could be decided on; a cap may be left out.
        """
        worth, training = value_of(request, self._now()), self._training(request)
        size = (await self._files.appraise(training, who.user)).size
        estimate, _ = await self._estimate(who.user, training, size, worth)
        offer = EstimateOffer(estimate, max_cost(request))
        return ZoneQuote(training, worth.deadline, offer, size.notes(training.max_length))

    async def accept(
        self,
        job: str,
        who: Principal,
        accepted: Acceptance,
        quote: Quote,
        reply: IdempotencyKey | None,
    ) -> JobReadModel:
        """The job of an estimate that was shown.

        Raises:
            InputError: if it is of another job, or no time is left.
            QuoteChangedError: if it is likely to come to more than was shown, or there is no room.
        """
        request, cap = accepted_request(accepted, quote)
        need, training = quoted_estimate(quote).p90_cost, quote.training
        if cap < need:
            expected = f"at least {need}: less is kept with a probability below 0.9"
            raise InputError("market.max_cost", f"{cap}", expected)
        # A span counts from when it was asked for.
        worth = replace(value_of(request, quote.at), deadline=quote.deadline)
        size = (await self._files.appraise(training, who.user)).size
        made = await self._estimate(who.user, training, size, worth)
        why = degradation_reason(quote, made[0])
        if why is None:
            shown = _record(request, who, worth, cap, quote.alternatives)
            bid = self._with(job, who.user, training, size, shown, made, reply)
            row = await self.pending_jobs.decide_in_turn(
                bid, lambda zone: zone.decide(bid) if zone.has_room else None
            )
            if row is not None:
                return row
            why = "the zone has as many jobs as it runs at once by now"
        offer = EstimateOffer(made[0], max_cost(quote.request))
        again = ZoneQuote(training, quote.deadline, offer, quote.notes)
        raise QuoteChangedError(why, self._quotes.replace(quote, again))

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobReadModel:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        training, shown = self._training(request), self._shown(who, request, alternatives)
        size = (await self._files.appraise(training, who.user)).size
        bid = await self._bid(new_id("ftjob"), who.user, training, size, shown, None)
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
        training, shown = self._training(request), self._shown(who, request, alternatives)
        size = await self._files.cached_size(training, who.user)
        if size is None:
            return await self.pending_jobs.receive(job, who.user, training, shown, reply)
        bid = await self._bid(job, who.user, training, size, shown, reply)
        return await self.pending_jobs.decide_in_turn(bid, lambda zone: zone.decide(bid))

    async def preload(self, file: FileRecord) -> bool:
        """Look at a new upload; see `AnswersRequests.preload`."""
        return await self._files.preload(file, self._defaults.length)

    def _training(self, request: JobRequest) -> Training:
        return resolve_training(request, self._defaults)

    def _shown(
        self, who: Principal, request: JobRequest, alternatives: Alternatives = NO_ALTERNATIVES
    ) -> dict[str, Any]:
        """What is on record of a request: all that a decision is made of, after a restart too."""
        worth, cap = value_of(request, self._now()), required_cap(request)
        return _record(request, who, worth, cap, alternatives)

    async def _bid(
        self,
        job: str,
        owner: str,
        training: Training,
        size: DataSize,
        request: dict[str, Any],
        reply: IdempotencyKey | None,
        *,
        is_limited: bool = True,
    ) -> SpotBid:
        worth = _worth_of(request)
        made = await self._estimate(owner, training, size, worth, is_limited=is_limited)
        return self._with(job, owner, training, size, request, made, reply)

    def _with(
        self,
        job: str,
        owner: str,
        training: Training,
        size: DataSize,
        request: dict[str, Any],
        made: tuple[Estimate, EstimateInputs],
        reply: IdempotencyKey | None,
    ) -> SpotBid:
        """A bid with its estimate."""
        estimate, estimated = made
        return SpotBid(
            job=job,
            owner=owner,
            training=training,
            size=size,
            worth=_worth_of(request),
            cap=Money(request["max_cost"]),
            estimate=estimate,
            estimated=estimated,
            request=request,
            left=lambda: self._turns.left(owner),
            reply=reply,
        )

    async def _estimate(
        self,
        user: str,
        training: Training,
        size: DataSize,
        worth: JobValue,
        *,
        is_limited: bool = True,
    ) -> tuple[Estimate, EstimateInputs]:
        self._rental.check(training, size)
        slot = self._rental.clock.slot()
        pace = await self._actor.call(lambda zone: zone.pace)
        ready_at = self._rental.clock.now() + pace.start_seconds
        slots = self._rental.slot_range(worth.deadline, slot, ready_at)
        if not slots:
            raise no_slot(self._rental.clock, slots.start)
        terms = self._rental.terms(training, size, worth, slots, pace.speed)
        found = await self._estimates.run(
            user,
            lambda: self._rental.estimate(terms, slots.start, slot, pace),
            is_limited=is_limited,
        )
        made = EstimateInputs(
            slot=slot,
            first=slots.start,
            deadline=terms.deadline,
            hard_factor=terms.hard_factor,
            **asdict(pace),
        )
        return found, made

    async def _received_bid(
        self, job: str, owner: str, training: Training, request: dict[str, Any]
    ) -> SpotBid:
        size = (await self._files.appraise(training, owner)).size
        # It is on record, and bounded by the number of open jobs.
        return await self._bid(job, owner, training, size, request, None, is_limited=False)

    def _check_there(self, bid: SpotBid) -> None:
        self._files.ensure_not_deleted(bid.training)


def _record(
    request: JobRequest, who: Principal, worth: JobValue, cap: Money, alternatives: Alternatives
) -> dict[str, Any]:
    """What is on record of a request."""
    shown = request_record(request, who, worth.amount, worth.deadline, alternatives)
    return {**shown, "max_cost": str(cap), "zero_at": worth.zero_at}


def _worth_of(record: dict[str, Any]) -> JobValue:
    """What a request on record says that its job is worth."""
    amount = record["bid"]
    return JobValue(
        None if amount is None else Money(amount), record["deadline"], record["zero_at"]
    )


# The gateway.

_FOREIGN = ("target_loss", "sites")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotGateway(ZoneGateway[SpotZone, SpotBids]):
    """One zone.

    Attributes:
        rental: what it offers.
    """

    rental: SpotSupply

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        return SPOT

    @property
    def base(self) -> str:
        """Name of the base model that it trains."""
        return self.rental.base

    @property
    def clock(self) -> SlotClock:
        """Its slots."""
        return self.rental.clock

    @property
    def num_slots(self) -> int:
        """How many slots from now on it looks ahead."""
        return self.rental.num_slots

    @property
    def num_nodes(self) -> int:
        """How many instances its jobs hold at most."""
        return self.rental.n_max * self.rental.max_jobs

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        foreign = unsupported_field(request, *_FOREIGN)
        if foreign is not None:
            return f"does not support {foreign}"
        if request.market.repair:
            return "has no vendor that could repair data"
        return None if has_deadline(request) else "needs market.deadline"

    def _state_of(self, zone: SpotZone) -> dict[str, Any]:
        zone.begin_slots()
        clock, seen = zone.clock, list(zone.state.slots.values())
        return {
            "slot_seconds": clock.slot_seconds,
            "unit_cost": zone.rental.unit_cost,
            "unit_price": zone.rental.unit_price,
            "slots": [{**vars(one), "begins_at": clock.slot_start(one.slot)} for one in seen],
        }

    def _check(self, request: JobRequest) -> None:
        reject_unsupported(request, self.name, SPOT, *_FOREIGN)
        if request.market.repair:
            raise InputError(
                "market.repair", "is set", f"data that zone {self.name} need not repair"
            )
