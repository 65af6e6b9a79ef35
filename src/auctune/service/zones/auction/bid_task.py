"""A bid in slots: what the mechanism is offered."""

from auctune.domain import InputError, Quote, Task
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.zones.auction.bid import Bid
from auctune.service.zones.auction.supply import Supply
from auctune.service.zones.clock import SlotClock


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
