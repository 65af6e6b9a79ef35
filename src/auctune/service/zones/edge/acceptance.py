"""Accepting a line of an edge zone's quote; see `auctune.service.zones.lines`."""

from auctune.edge import EdgeMenuLine
from auctune.service.jobs.quotes import Quote
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.zones.as_quoted import own_names
from auctune.service.zones.edge.bid import EdgeBid
from auctune.service.zones.edge.offer import EdgeOffer
from auctune.service.zones.edge.question import EdgeQuestion
from auctune.service.zones.edge.zone import EdgeZone
from auctune.service.zones.lines import accepted_line


def quoted_line(accepted: Acceptance, quote: Quote) -> tuple[EdgeMenuLine, JobRequest]:
    """The line that a request accepts, and the request with all that was quoted filled in.

    Raises:
        InputError: if there is no such line, or the request says something else.
    """
    assert isinstance(quote.offer, EdgeOffer)
    line = accepted_line(accepted, quote, quote.offer.menu.lines)
    # Where the data are stays as it was quoted.
    terms = accepted.market.model_copy(update={"sites": quote.request.market.sites})
    return line, quote.request.model_copy(update={**own_names(accepted), "market": terms})


def question_if_early(zone: EdgeZone, bid: EdgeBid) -> EdgeQuestion | None:
    """What a quote asks; none where no time is left."""
    return zone.question(bid) if zone.has_slot_before(bid.deadline) else None
