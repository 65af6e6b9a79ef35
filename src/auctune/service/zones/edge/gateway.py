"""Request side of an edge zone: menus, bids, and the operator's view of sites."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from auctune.domain import InputError, Money
from auctune.domain.money import ZERO
from auctune.edge import EdgeMenu, EdgeMenuLine
from auctune.service.accounts.keys import Principal
from auctune.service.config.zone import EDGE
from auctune.service.files.repository import FileRecord
from auctune.service.identifiers import new_id
from auctune.service.jobs.budget_turns import BudgetTurns
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
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.jobs.training import Defaults, Training, resolve_training
from auctune.service.zones.core.acceptance import (
    last_resort,
    renamed_fields,
    resolve_line,
    why_changed,
)
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.gateway import PendingJobs, ZoneGateway
from auctune.service.zones.core.offers import NO_ALTERNATIVES, Alternatives, QuoteSummary, ZoneQuote
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.edge.bid import EdgeBid, MenuRequest
from auctune.service.zones.edge.site_datasets import SiteDatasetResolver, SiteDatasets
from auctune.service.zones.edge.supply import EdgeSupply, micro_batch_of
from auctune.service.zones.edge.zone import EdgeZone


@dataclass(frozen=True, slots=True)
class EdgeOffer:
    """A menu.

    Attributes:
        menu: earliest finish first, each line cheaper than the one before.
        clock: of its slots.
    """

    menu: EdgeMenu
    clock: SlotClock

    @property
    def size(self) -> int:
        """Slots and moves in the plans of all lines."""
        return sum(1 + len(part.moves) for line in self.menu.lines for part in line.plan.slots)

    @property
    def summary(self) -> QuoteSummary | None:
        """The last line: what is bought is run by then, or refunded."""
        if not self.menu.lines:
            return None
        last = self.menu.lines[-1]
        return QuoteSummary(last.price, self.clock.slot_end(last.finish), 0.0)

    @property
    def unavailable_reason(self) -> str | None:
        """Whether there is no line."""
        return None if self.menu.lines else "it cannot be done by its deadline"

    def to_response(self) -> dict[str, Any]:
        """All lines, in the real clock's time."""
        ends, begins = self.clock.slot_end, self.clock.slot_start
        lines = []
        for index, line in enumerate(self.menu.lines):
            finish, start = ends(line.finish), begins(line.plan.slots[0].slot)
            lines.append(
                {
                    "line": index,
                    "price": str(line.price),
                    "finish": finish,
                    "finish_time": to_rfc3339(finish),
                    "start": start,
                    "start_time": to_rfc3339(start),
                    "vendor": None,
                    "slots": len(line.plan.slots),
                }
            )
        return {"lines": lines, "estimate": None}


# Accepting a line of a quote.


def quoted_line(accepted: Acceptance, quote: Quote) -> tuple[EdgeMenuLine, JobRequest]:
    """The line that a request accepts, and the request with all that was quoted filled in.

    Raises:
        InputError: if there is no such line, or the request says something else.
    """
    assert isinstance(quote.offer, EdgeOffer)
    line = resolve_line(accepted, quote, quote.offer.menu.lines)
    # Where the data are stays as it was quoted.
    terms = accepted.market.model_copy(update={"sites": quote.request.market.sites})
    return line, quote.request.model_copy(update={**renamed_fields(accepted), "market": terms})


def menu_request(zone: EdgeZone, bid: EdgeBid) -> MenuRequest | None:
    """What a quote asks; none where no time is left."""
    return zone.question(bid) if zone.has_slot_before(bid.deadline) else None


# Bids.
#
# Where the files were looked at before, the decision is the answer. Where they were not, the job
# is on record as `validating_files` first, and decided as soon as they are.


class EdgeBids:
    """Shows prices of one zone, and takes bids and lines that were shown.

    Args:
        actor: decides.
        supply: what it offers.
        defaults: what is chosen where requests do not.
        files: of jobs.
        turns: those of one budget pass one after the other.
        quotes: that were shown.
        now: tells unix time.
    """

    def __init__(
        self,
        actor: ZoneActor[EdgeZone],
        supply: EdgeSupply,
        defaults: Defaults,
        files: SiteDatasetResolver,
        turns: BudgetTurns,
        quotes: QuoteStore,
        now: Callable[[], float],
    ) -> None:
        self._actor, self._supply, self._defaults = actor, supply, defaults
        self._files, self._turns, self._quotes, self._now = files, turns, quotes, now
        self.pending_jobs = PendingJobs(actor, turns, self._check_there, self._received_bid)
        self._quoting = asyncio.Lock()

    async def quote(self, who: Principal, request: JobRequest) -> ZoneQuote:
        """What a job would cost, by the time at which it is finished.

        Raises:
            InputError: as `preview`; a bid and a deadline may be left out.
        """
        # What it bids does not count, but what is no amount of money is a mistake of the asker's.
        validate_amounts(request)
        clock, now = self._supply.clock, self._now()
        horizon = now + self._supply.market.slots * clock.slot_seconds
        deadline = deadline_of(request, now) if has_deadline(request) else horizon
        training, shown = self._training(request), self._shown(who, request, ZERO, deadline)
        facts = await self._files.inspect(training, shown["sites"], who.user)
        bid = self._bid(new_id("ftjob"), who.user, training, facts, shown)
        menu = await self._menu(bid, lambda zone: zone.question(bid))
        return ZoneQuote(training, deadline, EdgeOffer(menu, clock))

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobReadModel:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        training, shown = self._training(request), self._asked(who, request, alternatives)
        facts = await self._files.inspect(training, shown["sites"], who.user)
        bid = self._bid(new_id("ftjob"), who.user, training, facts, shown)
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
        training, shown = self._training(request), self._asked(who, request, alternatives)
        sites = shown["sites"]
        await self._files.check_owned(training, sites, who.user)
        self._files.check_there(training, sites)
        facts = self._files.cached(training, sites)
        if facts is None:
            return await self.pending_jobs.receive(job, who.user, training, shown, reply)
        bid = self._bid(job, who.user, training, facts, shown, reply)
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
        deadline = last_resort(quote, self._supply.clock.slot_end(line.finish))
        amount = line.price if request.market.bid is None else bid_amount(request)
        training = quote.training
        shown = self._shown(who, request, amount, deadline, quote.alternatives)
        facts = await self._files.inspect(training, shown["sites"], who.user)
        bid = self._bid(job, who.user, training, facts, shown, reply)
        row = await self.pending_jobs.decide_in_turn(bid, lambda zone: zone.accept(bid, line))
        if row is None:
            why = why_changed(line.plan.slots[0].slot, self._supply.clock)
            raise QuoteChangedError(why, await self._again(quote, bid))
        return row

    async def preload(self, file: FileRecord) -> bool:
        """Look at a new upload; see `AnswersRequests.preload`."""
        return await self._files.preload(file)

    async def _again(self, quote: Quote, bid: EdgeBid) -> Quote:
        """What is to be had now in place of a quote."""
        again = replace(bid, bid=ZERO, deadline=quote.deadline)
        menu = await self._menu(again, lambda zone: menu_request(zone, again))
        offer = EdgeOffer(menu, self._supply.clock)
        return self._quotes.replace(quote, ZoneQuote(quote.training, quote.deadline, offer))

    async def _menu(self, bid: EdgeBid, ask: Callable[[EdgeZone], MenuRequest | None]) -> EdgeMenu:
        """Return the menu, computed off the actor, one at a time: threads are few."""
        async with self._quoting:
            question = await self._actor.call(ask)
            if question is None:
                return EdgeMenu(bid.job, ())
            return await asyncio.to_thread(question.answer)

    async def _received_bid(
        self, job: str, owner: str, training: Training, request: dict[str, Any]
    ) -> EdgeBid:
        facts = await self._files.inspect(training, request["sites"], owner)
        return self._bid(job, owner, training, facts, request)

    def _check_there(self, bid: EdgeBid) -> None:
        self._files.check_there(bid.training, bid.request["sites"])

    def _training(self, request: JobRequest) -> Training:
        training = resolve_training(request, self._defaults)
        micro_batch = micro_batch_of(training)
        if training.batch_size % micro_batch:
            expected = f"a multiple of {micro_batch}, or less"
            place = "hyperparameters.batch_size"
            raise InputError(place, f"{training.batch_size}", expected)
        return training

    def _asked(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> dict[str, Any]:
        amount, deadline = bid_amount(request), deadline_of(request, self._now())
        return self._shown(who, request, amount, deadline, alternatives)

    def _shown(
        self,
        who: Principal,
        request: JobRequest,
        amount: Money,
        deadline: float,
        alternatives: Alternatives = NO_ALTERNATIVES,
    ) -> dict[str, Any]:
        """What is on record of a request: all that a decision is made of, after a restart too.

        Raises:
            InputError: if it names sites that there are not, or a training file of none of them.
        """
        asked, known = request.market.sites, self._supply.market.site_ids
        assert asked is not None
        for site in asked:
            if site not in known:
                found = f"{site!r} is no site of this zone"
                raise InputError("market.sites", found, f"some of {', '.join(known)}")
        if request.training_file not in asked.values():
            found = f"{request.training_file!r} lies at no site"
            raise InputError("training_file", found, "one of the files of market.sites")
        # In the order of the zone's sites: chunks are numbered by it.
        sites = {site: asked[site] for site in known if site in asked}
        shown = request_record(request, who, amount, deadline, alternatives)
        return {**shown, "sites": sites}

    def _bid(
        self,
        job: str,
        owner: str,
        training: Training,
        facts: SiteDatasets,
        request: dict[str, Any],
        reply: IdempotencyKey | None = None,
    ) -> EdgeBid:
        return EdgeBid(
            job=job,
            owner=owner,
            training=training,
            facts=facts,
            bid=Money(request["bid"]),
            deadline=request["deadline"],
            request=request,
            left=lambda: self._turns.left(owner),
            reply=reply,
        )


# The gateway.

_FOREIGN = ("target_loss", "share")
# Of `market.lora`, what a model of the edge trains by too.
_LORA = {"learning_rate", "weight_decay"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeGateway(ZoneGateway[EdgeZone, EdgeBids]):
    """One zone.

    Attributes:
        supply: what it offers.
    """

    supply: EdgeSupply

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        return EDGE

    @property
    def base(self) -> str:
        """Name of the model that it trains."""
        return self.supply.model

    @property
    def clock(self) -> SlotClock:
        """Its slots."""
        return self.supply.clock

    @property
    def num_slots(self) -> int:
        """How many slots from now on it looks ahead."""
        return self.supply.market.slots

    @property
    def num_nodes(self) -> int:
        """How many sites it has."""
        return len(self.supply.market.sites)

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        if request.market.sites is None:
            return "needs market.sites"
        missing = set(request.market.sites) - set(self.supply.market.site_ids)
        if missing:
            return f"has no site {', '.join(sorted(missing))}"
        found = _unknown(request)
        return None if found is None else f"does not support {found}"

    def _state_of(self, zone: EdgeZone) -> dict[str, Any]:
        zone.begin_slots()
        eris, clock, first = zone.eris, zone.clock, zone.state.slot
        market, ledger, prices = eris.market, eris.ledger, eris.prices(first)
        return {
            "first_slot": first,
            "first_begins_at": clock.slot_start(first),
            "slot_seconds": clock.slot_seconds,
            "types": list(market.types),
            "sites": [
                {
                    "id": site.id,
                    "capacity": dict(site.capacity),
                    "state": "lost" if site.id in zone.state.lost else "up",
                }
                for site in market.sites
            ],
            "price": prices.beta.tolist(),
            "used": ledger.used.tolist(),
            "traffic_price": prices.alpha.tolist(),
            "traffic_used_mb": ledger.traffic.tolist(),
            "traffic_mb_per_slot": market.traffic_mb_per_slot,
            "jobs": [
                {
                    "job": job.id,
                    "user": job.owner,
                    "state": job.phase.value,
                    "slots": [part.slot for part in job.plan.slots],
                    "trained": list(job.trained),
                    "torn": job.failed_slots,
                }
                for job in zone.state.jobs.values()
            ],
        }

    def _check(self, request: JobRequest) -> None:
        reject_unsupported(request, self.name, EDGE, *_FOREIGN)
        found = _unknown(request)
        if found is not None:
            expected = f"none: zone {self.name} ({EDGE}) does not support it"
            raise InputError(found, "is given", expected)
        if request.market.sites is None:
            expected = f"the files of sites: zone {self.name} trains where data are"
            raise InputError("market.sites", "is missing", expected)


def _unknown(request: JobRequest) -> str | None:
    """The first thing that a request says and that has no meaning here, as errors name it."""
    found = unsupported_field(request, *_FOREIGN)
    if found is not None:
        return found
    if request.market.repair:
        return "market.repair"
    lora = sorted(request.market.lora.model_fields_set - _LORA)
    return f"market.lora.{lora[0]}" if lora else None
