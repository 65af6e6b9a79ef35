"""Accepting a line of a quote: the same job, the same plan, and no more than what was shown."""

from auctune.domain import InputError, parse_money
from auctune.edge import EdgeMenuLine
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.time import to_rfc3339
from auctune.service.quotes import Quote
from auctune.service.zones.as_quoted import check_same, own_names
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.edge.bid import EdgeBid
from auctune.service.zones.edge.offer import EdgeOffer
from auctune.service.zones.edge.question import EdgeQuestion
from auctune.service.zones.edge.zone import EdgeZone


def quoted_line(accepted: Acceptance, quote: Quote) -> tuple[EdgeMenuLine, JobRequest]:
    """The line that a request accepts, and the request with all that was quoted filled in.

    Raises:
        InputError: if there is no such line, or the request says something else.
    """
    terms = accepted.market
    assert isinstance(quote.offer, EdgeOffer)
    lines = quote.offer.menu.lines
    if terms.line is None or terms.line >= len(lines):
        found = "is missing" if terms.line is None else f"{terms.line}"
        most = len(lines) - 1
        expected = f"0 to {most}" if lines else "another quote: this one has no lines"
        raise InputError("market.line", found, expected)
    line = lines[terms.line]
    check_same(accepted, quote, "bid")
    if terms.bid is not None and parse_money(terms.bid, "market.bid") < line.price:
        expected = f"at least the line's price, {line.price}, or none"
        raise InputError("market.bid", f"{terms.bid}", expected)
    # Where the data are stays as it was quoted.
    own = terms.model_copy(update={"sites": quote.request.market.sites})
    return line, quote.request.model_copy(update={**own_names(accepted), "market": own})


def why_changed(line: EdgeMenuLine, clock: SlotClock) -> str:
    """Why a line of a quote is not to be had any more."""
    start = line.plan.slots[0].slot
    if start <= clock.slot():
        began = to_rfc3339(clock.begins(start))
        return f"the first slot of this line's plan began at {began}"
    return "the plan of this line is taken, or costs more by now"


def question_if_early(zone: EdgeZone, bid: EdgeBid) -> EdgeQuestion | None:
    """What a quote asks; none where no time is left."""
    zone.begin_slots()
    in_time = zone.clock.last_by(bid.deadline) > zone.state.slot
    return zone.question(bid) if in_time else None
