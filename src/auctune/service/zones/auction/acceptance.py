"""Accepting a line of a quote: the same job, the same plan, and no more than what was shown.

A request names a quote and a line. What else it says must be what was quoted; what it leaves out
is. A line is to be had as long as the first slot of its plan is still to come, its cells are free,
and they cost no more than they did.
"""

from auctune.domain import InputError, PriceMenu, parse_money
from auctune.domain.menu import MenuLine
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.time import to_rfc3339
from auctune.service.quotes import Quote
from auctune.service.zones.as_quoted import check_same, own_names
from auctune.service.zones.auction.bid import Bid
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.offer import MenuOffer


def why_changed(line: MenuLine, clock: SlotClock) -> str:
    """Why a line of a quote is not to be had any more."""
    start = line.schedule.start
    if start <= clock.slot():
        began = to_rfc3339(clock.begins(start))
        return f"the first slot of this line's plan began at {began}"
    return "the plan of this line is taken, or costs more by now"


def accept_if_early(zone: AuctionZone, bid: Bid, line: MenuLine) -> JobRow | None:
    """A line's job; none where the line has passed, or is taken."""
    zone.begin_slots()
    if line.schedule.start <= zone.state.slot:
        return None
    return zone.accept(bid, line)


def quote_if_early(zone: AuctionZone, bid: Bid) -> PriceMenu:
    """A menu, which is empty where no time is left."""
    zone.begin_slots()
    if zone.clock.last_by(bid.deadline) <= zone.state.slot:
        return PriceMenu(bid.job, ())
    return zone.quote(bid)


def quoted_line(request: Acceptance, quote: Quote) -> tuple[MenuLine, JobRequest]:
    """The line that a request accepts, and the request with all that was quoted filled in.

    Raises:
        InputError: if there is no such line, or the request says something else.
    """
    terms = request.market
    assert isinstance(quote.offer, MenuOffer)
    lines = quote.offer.menu.lines
    num_lines = len(lines)
    if terms.line is None or terms.line >= num_lines:
        found = "is missing" if terms.line is None else f"{terms.line}"
        expected = f"0 to {num_lines - 1}" if num_lines else "another quote: this one has no lines"
        raise InputError("market.line", found, expected)
    line = lines[terms.line]
    check_same(request, quote, "bid")
    if terms.bid is not None and parse_money(terms.bid, "market.bid") < line.price:
        raise InputError(
            "market.bid", f"{terms.bid}", f"at least the line's price, {line.price}, or none"
        )
    return line, quote.request.model_copy(update={**own_names(request), "market": terms})
