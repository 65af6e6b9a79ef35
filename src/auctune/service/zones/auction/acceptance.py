"""Accepting a line of an auction's quote; see `auctune.service.zones.lines`."""

from auctune.domain import PriceMenu
from auctune.domain.menu import MenuLine
from auctune.service.jobs.quotes import Quote
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.zones.as_quoted import own_names
from auctune.service.zones.auction.bid import Bid
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.lines import accepted_line
from auctune.service.zones.offer import MenuOffer


def quote_if_early(zone: AuctionZone, bid: Bid) -> PriceMenu:
    """A menu, which is empty where no time is left."""
    return zone.quote(bid) if zone.has_slot_before(bid.deadline) else PriceMenu(bid.job, ())


def quoted_line(accepted: Acceptance, quote: Quote) -> tuple[MenuLine, JobRequest]:
    """The line that a request accepts, and the request with all that was quoted filled in.

    Raises:
        InputError: if there is no such line, or the request says something else.
    """
    assert isinstance(quote.offer, MenuOffer)
    line = accepted_line(accepted, quote, quote.offer.menu.lines)
    own = {**own_names(accepted), "market": accepted.market}
    return line, quote.request.model_copy(update=own)
