"""Accepting a line of a quote: the same job, the same plan, and no more than what was shown."""

from typing import Any

from auctune.domain import AuctuneError, InputError, PriceMenu
from auctune.domain.menu import MenuLine
from auctune.service.jobs.request import JobRequest
from auctune.service.quotes import Quote
from auctune.service.zone.bid import Bid
from auctune.service.zone.job_row import JobRow
from auctune.service.zone.zone import Zone


class QuoteChangedError(AuctuneError):
    """A line of a quote is not to be had any more.

    Attributes:
        quote: what is to be had now.
    """

    def __init__(self, quote: Quote) -> None:
        super().__init__("the plan of this line is taken, or costs more by now")
        self.quote = quote


def accept_if_early(zone: Zone, bid: Bid, line: MenuLine) -> JobRow | None:
    """A line's job; none where the line has passed, or is taken."""
    zone.begin_slots()
    if line.schedule.start <= zone.state.slot:
        return None
    return zone.accept(bid, line)


def quote_if_early(zone: Zone, bid: Bid) -> PriceMenu:
    """A menu, which is empty where no time is left."""
    zone.begin_slots()
    if zone.clock.last_by(bid.deadline) <= zone.state.slot:
        return PriceMenu(bid.job, ())
    return zone.quote(bid)


def quoted_line(request: JobRequest, quote: Quote | None) -> tuple[Quote, MenuLine]:
    """The line that a request accepts, which says again what was quoted, or nothing of it.

    Raises:
        InputError: if there is no such quote or line, or it is of another job.
    """
    terms = request.market
    if quote is None:
        raise InputError(
            "market.quote", f"{terms.quote!r} is unknown or too old", "a quote of the last hour"
        )
    if terms.line is None or terms.line >= len(quote.menu.lines):
        raise InputError("market.line", f"{terms.line}", "the number of a line of the quote")
    _check_same(request, quote)
    return quote, quote.menu.lines[terms.line]


def _check_same(request: JobRequest, quote: Quote) -> None:
    asked, terms, quoted = request.seed, request.market, quote.request.market
    if not _same_work(request, quote.request) or asked not in (None, quote.training.seed):
        raise InputError("market.quote", "is of another job", "the job that was quoted")
    if terms.zone not in (None, quote.zone):
        raise InputError("market.zone", "is not the quote's", f"{quote.zone!r}, or none")
    if terms.deadline not in (None, quoted.deadline):
        raise InputError(
            "market.deadline", "is not the quote's", "no deadline: the line has its own"
        )


def _same_work(request: JobRequest, quoted: JobRequest) -> bool:
    """Whether two requests are of the same job, whatever they bid."""

    def work(one: JobRequest) -> dict[str, Any]:
        record = one.model_dump(exclude={"metadata", "suffix", "market"})
        terms = one.market.model_dump(include={"lora", "share", "repair"})
        return {**record, **terms, "seed": None}

    return work(request) == work(quoted)
