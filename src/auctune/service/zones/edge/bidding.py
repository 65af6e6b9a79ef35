"""From a request for a job to an edge zone's answer: its files are looked at, the bid is read.

Where the files were looked at before, the decision is the answer. Where they were not, the job is
on record as `validating_files` first, and decided as soon as they are.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from auctune.domain import InputError, Money
from auctune.domain.money import ZERO
from auctune.edge import EdgeMenu
from auctune.service.accounts.keys import Principal
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
    request_record,
    validate_amounts,
)
from auctune.service.jobs.training import Defaults, Training, resolve_training
from auctune.service.zones.desk import Desk
from auctune.service.zones.docket import Docket
from auctune.service.zones.edge.acceptance import question_if_early, quoted_line
from auctune.service.zones.edge.bid import EdgeBid
from auctune.service.zones.edge.facts import SiteFacts
from auctune.service.zones.edge.offer import EdgeOffer
from auctune.service.zones.edge.question import EdgeQuestion
from auctune.service.zones.edge.site_files import SiteFiles
from auctune.service.zones.edge.supply import EdgeSupply, micro_batch_of
from auctune.service.zones.edge.zone import EdgeZone
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.lines import last_resort, why_changed
from auctune.service.zones.offer import NO_CHOICE, Alternatives, Priced


class EdgeBidding:
    """Shows prices of one zone, and takes bids and lines that were shown.

    Args:
        desk: decides.
        supply: what it offers.
        defaults: what is chosen where requests do not.
        files: of jobs.
        turns: those of one budget pass one after the other.
        quotes: that were shown.
        now: tells unix time.
    """

    def __init__(
        self,
        desk: Desk[EdgeZone],
        supply: EdgeSupply,
        defaults: Defaults,
        files: SiteFiles,
        turns: BudgetTurns,
        quotes: QuoteStore,
        now: Callable[[], float],
    ) -> None:
        self._desk, self._supply, self._defaults = desk, supply, defaults
        self._files, self._turns, self._quotes, self._now = files, turns, quotes, now
        self.pending_jobs = Docket(desk, turns, self._check_there, self._received_bid)
        self._quoting = asyncio.Lock()

    async def quote(self, who: Principal, request: JobRequest) -> Priced:
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
        return Priced(training, deadline, EdgeOffer(menu, clock))

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives
    ) -> JobRow:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        training, shown = self._training(request), self._asked(who, request, alternatives)
        facts = await self._files.inspect(training, shown["sites"], who.user)
        bid = self._bid(new_id("ftjob"), who.user, training, facts, shown)
        return await self._desk.call(lambda zone: zone.preview(bid))

    async def submit(
        self,
        job: str,
        who: Principal,
        request: JobRequest,
        reply: IdempotencyKey | None,
        alternatives: Alternatives,
    ) -> JobRow:
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
    ) -> JobRow:
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
        """Look at a new upload; see `AnswersRequests.look_at`."""
        return await self._files.preload(file)

    async def _again(self, quote: Quote, bid: EdgeBid) -> Quote:
        """What is to be had now in place of a quote."""
        again = replace(bid, bid=ZERO, deadline=quote.deadline)
        menu = await self._menu(again, lambda zone: question_if_early(zone, again))
        offer = EdgeOffer(menu, self._supply.clock)
        return self._quotes.replace(quote, Priced(quote.training, quote.deadline, offer))

    async def _menu(self, bid: EdgeBid, ask: Callable[[EdgeZone], EdgeQuestion | None]) -> EdgeMenu:
        """What is to be had, found out beside the desk; one after the other, as threads are few."""
        async with self._quoting:
            question = await self._desk.call(ask)
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
        alternatives: Alternatives = NO_CHOICE,
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
        facts: SiteFacts,
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
