"""A bid in an auction zone, and the task that the mechanism is offered for it."""

from dataclasses import dataclass

from auctune.domain import InputError, Money, Quote, Task
from auctune.domain.data_size import DataSize
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.jobs.training import ZoneBid
from auctune.service.zones.auction.supply import Supply
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.offers import VendorOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid(ZoneBid):
    """Bid in an auction zone.

    Attributes:
        size: of the data.
        bid: amount of the bid.
        deadline: unix time.
        offers: of vendors, if the data need repair.
    """

    size: DataSize
    bid: Money
    deadline: float
    offers: tuple[VendorOffer, ...] = ()


# The task of a bid, in slots.


def bid_task(bid: Bid, supply: Supply, clock: SlotClock, first: int, last: int) -> Task:
    """A bid as the mechanism sees it.

    Args:
        bid: with its deadline and vendors' delays in seconds.
        supply: of the zone.
        clock: the zone's slots.
        first: the first slot in which it may run.
        last: the last slot of the horizon.

    Raises:
        InputError: if its deadline leaves no slot, or no node can hold it.
    """
    deadline = min(clock.last_slot_by(bid.deadline), last)
    if deadline < first:
        raise InputError(
            "market.deadline",
            "leaves no whole slot",
            f"{to_rfc3339(clock.slot_end(first))}, when the next slot ends, or later",
        )
    quotes = tuple(
        Quote(offer.vendor, offer.price, clock.slots_for(offer.seconds)) for offer in bid.offers
    )
    return supply.task(
        bid.job,
        bid.training,
        bid.size,
        bid=bid.bid,
        arrival=first,
        deadline=deadline,
        quotes=quotes,
        owner=bid.owner,
        budget=bid.left(),
    )
