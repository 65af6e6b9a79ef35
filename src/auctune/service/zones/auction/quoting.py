"""Prices before a bid: what a job would cost or come to, and a shown line accepted."""

from dataclasses import replace

from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.service.access.key import Principal
from auctune.service.identifiers import new_id
from auctune.service.jobs.asked import Defaults, training_of
from auctune.service.jobs.job_files import JobFiles
from auctune.service.jobs.reply import Reply
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.terms import (
    asked_deadline,
    bid_amount,
    check_amounts,
    has_deadline,
    shown_request,
)
from auctune.service.quotes import Quote, QuoteChangedError, Quotes
from auctune.service.zones.auction.acceptance import quote_if_early, quoted_line
from auctune.service.zones.auction.bid import Bid
from auctune.service.zones.auction.bidding import Bidding
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.desk import Desk
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.lines import why_changed
from auctune.service.zones.offer import NO_CHOICE, Alternatives, MenuOffer, Priced


class Quoting:
    """Shows menus and previews of one zone, and takes lines that were shown.

    Args:
        desk: of the zone.
        clock: its slots.
        num_slots: that it looks ahead.
        defaults: what is chosen where requests do not.
        files: of jobs.
        bidding: makes bids, and has them decided on in their turn.
        quotes: that were shown.
    """

    def __init__(
        self,
        desk: Desk[AuctionZone],
        clock: SlotClock,
        num_slots: int,
        defaults: Defaults,
        files: JobFiles,
        bidding: Bidding,
        quotes: Quotes,
    ) -> None:
        self._desk = desk
        self._clock = clock
        self._num_slots = num_slots
        self._defaults = defaults
        self._files = files
        self._bidding = bidding
        self._quotes = quotes

    async def preview(
        self, who: Principal, request: JobRequest, alternatives: Alternatives = NO_CHOICE
    ) -> JobRow:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        amount = bid_amount(request)
        deadline = asked_deadline(request, self._clock.now())
        bid = await self._appraised(who, request, amount, deadline, alternatives)
        return await self._desk.ask_here(lambda zone: zone.preview(bid))

    async def quote(self, who: Principal, request: JobRequest) -> Priced:
        """What a job would cost, by the time at which it is finished.

        Raises:
            InputError: as `preview`; a bid and a deadline may be left out.
        """
        # What it bids does not count, but what is no amount of money is a mistake of the asker's.
        check_amounts(request)
        now = self._clock.now()
        deadline = (
            asked_deadline(request, now)
            if has_deadline(request)
            else now + self._num_slots * self._clock.slot_seconds
        )
        bid = await self._appraised(who, request, ZERO, deadline)
        menu = await self._desk.ask_here(lambda zone: zone.quote(bid))
        return Priced(bid.training, deadline, MenuOffer(menu, self._clock))

    async def accept(
        self, job: str, who: Principal, accepted: Acceptance, quote: Quote, reply: Reply | None
    ) -> JobRow:
        """The job of a line that was shown, at no more than was shown.

        Raises:
            InputError: if there is no such line, or it is of another job.
            QuoteChangedError: if it is not to be had any more.
        """
        line, request = quoted_line(accepted, quote)
        deadline = self._clock.ends(line.deadline)
        amount = line.price if request.market.bid is None else bid_amount(request)
        shown = shown_request(request, who, amount, deadline)
        training = quote.training
        file = await self._files.get(training.data, who.user, "training_file")
        found = await self._files.appraise(file, training, who.user)
        make = self._bidding.bid
        bid = make(job, who.user, training, found, amount, deadline, shown, reply)
        row = await self._bidding.in_turn(bid, lambda zone: zone.accept(bid, line))
        if row is None:
            again = await self._again(quote, bid)
            raise QuoteChangedError(why_changed(line.schedule.start, self._clock), again)
        return row

    async def _again(self, quote: Quote, bid: Bid) -> Quote:
        """What is to be had now in place of a quote."""
        again = replace(bid, bid=ZERO, deadline=quote.deadline)
        menu = await self._desk.ask_here(lambda zone: quote_if_early(zone, again))
        priced = Priced(quote.training, quote.deadline, MenuOffer(menu, self._clock))
        return self._quotes.again(quote, priced)

    async def _appraised(
        self,
        who: Principal,
        request: JobRequest,
        amount: Money,
        deadline: float,
        alternatives: Alternatives = NO_CHOICE,
    ) -> Bid:
        training = training_of(request, self._defaults)
        file = await self._files.get(training.data, who.user, "training_file")
        found = await self._files.appraise(file, training, who.user)
        shown = shown_request(request, who, amount, deadline, alternatives)
        make = self._bidding.bid
        return make(new_id("ftjob"), who.user, training, found, amount, deadline, shown)
