"""Prices before a bid: what a job would cost or come to, and a shown line accepted."""

from collections.abc import Callable
from dataclasses import replace

from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.service.access.key import Principal
from auctune.service.identifiers import new_id
from auctune.service.jobs.asked import training_of
from auctune.service.jobs.bids import Bids, bid_amount, shown_request
from auctune.service.jobs.job_files import JobFiles
from auctune.service.jobs.offered_zones import OfferedZones
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.quotes import Quote, Quotes
from auctune.service.zones.auction.acceptance import (
    QuoteChangedError,
    accept_if_early,
    quote_if_early,
    quoted_line,
)
from auctune.service.zones.auction.bid import Bid, Reply
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.open_zone import OpenZone


class Quoting:
    """Shows menus and previews, and takes lines that were shown.

    Args:
        zones: that are open.
        files: of jobs.
        bids: makes bids.
        quotes: that were shown.
        now: tells unix time.
    """

    def __init__(
        self,
        zones: OfferedZones,
        files: JobFiles,
        bids: Bids,
        quotes: Quotes,
        now: Callable[[], float],
    ) -> None:
        self._zones = zones
        self._files = files
        self._bids = bids
        self._quotes = quotes
        self._now = now

    async def preview(self, who: Principal, request: JobRequest) -> JobRow:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        zone = self._zones.meant(request)
        amount = bid_amount(request)
        bid = await self._appraised(who, request, zone, amount, self._bids.deadline(request))
        return await zone.ask(lambda desk: desk.preview(bid))

    async def quote(self, who: Principal, request: JobRequest) -> Quote:
        """What a job would cost, by the time at which it is finished.

        Raises:
            InputError: as `preview`; a bid and a deadline may be left out.
        """
        zone = self._zones.meant(request)
        if request.market.bid is not None:
            # It does not count, but what is no amount of money is a mistake of the asker's.
            bid_amount(request)
        deadline = (
            self._now() + zone.supply.cluster.slots * zone.clock.slot_seconds
            if request.market.deadline is None
            else self._bids.deadline(request)
        )
        bid = await self._appraised(who, request, zone, ZERO, deadline)
        menu = await zone.ask(lambda desk: desk.quote(bid))
        return self._quotes.add(who.user, zone.name, request, bid.training, menu, deadline)

    async def accept(
        self, job: str, who: Principal, accepted: Acceptance, reply: Reply | None
    ) -> JobRow:
        """The job of a line that was shown, at no more than was shown.

        Raises:
            InputError: if there is no such line, or it is of another job.
            QuoteChangedError: if it is not to be had any more.
            ZonePausedError: if its zone takes no bids.
        """
        found_quote = self._quotes.get(accepted.market.quote or "", who.user)
        quote, line, request = quoted_line(accepted, found_quote)
        zone = self._zones.named(quote.zone)
        self._zones.check_open(zone)
        deadline = zone.clock.ends(line.deadline)
        amount = line.price if request.market.bid is None else bid_amount(request)
        shown = shown_request(request, who, amount, deadline)
        file = await self._files.get(quote.training.data, who.user, "training_file")
        found = await self._files.appraise(zone, file, quote.training, who.user)
        self._files.check_there(quote.training)
        made = self._bids.make(job, who.user, quote.training, found, amount, deadline, shown)
        bid = replace(made, reply=reply)
        row = await self._bids.in_turn(
            who.user, zone, lambda desk: accept_if_early(desk, bid, line)
        )
        if row is None:
            raise QuoteChangedError(await self._again(quote, zone, bid), line, zone.clock)
        return row

    async def _again(self, quote: Quote, zone: OpenZone, bid: Bid) -> Quote:
        """What is to be had now in place of a quote."""
        again = replace(bid, bid=ZERO, deadline=quote.deadline)
        menu = await zone.ask(lambda desk: quote_if_early(desk, again))
        return self._quotes.add(
            quote.owner, zone.name, quote.request, quote.training, menu, quote.deadline
        )

    async def _appraised(
        self,
        who: Principal,
        request: JobRequest,
        zone: OpenZone,
        amount: Money,
        deadline: float,
    ) -> Bid:
        training = training_of(request, zone.defaults)
        file = await self._files.get(training.data, who.user, "training_file")
        found = await self._files.appraise(zone, file, training, who.user)
        shown = shown_request(request, who, amount, deadline)
        return self._bids.make(new_id("ftjob"), who.user, training, found, amount, deadline, shown)
