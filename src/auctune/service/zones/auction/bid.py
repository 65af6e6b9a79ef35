"""A bid in an auction zone, and the task that the mechanism is offered for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from auctune.domain import InputError, Money, Quote, Task
from auctune.domain.data_size import DataSize
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.jobs.training import Training
from auctune.service.zones.auction.supply import Supply
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.offers import VendorOffer
from auctune.service.zones.core.zone import unlimited


@dataclass(frozen=True, slots=True)
class Bid:
    """What an owner asks of a zone.

    Attributes:
        job: id of the job that it becomes.
        owner: user id.
        training: what to train.
        size: of the data; none: still being looked at.
        bid: what it is worth to its owner.
        deadline: unix time by which it must be done.
        offers: of vendors, if the data need work.
        request: as the owner made it, for them to read again.
        left: tells what is left of the owner's budget; none: any amount.
        reply: by what the same request is known when it is made again; none: by nothing.
    """

    job: str
    owner: str
    training: Training
    size: DataSize
    bid: Money
    deadline: float
    offers: tuple[VendorOffer, ...] = ()
    request: dict[str, Any] = field(default_factory=dict)
    left: Callable[[], Money | None] = unlimited
    reply: IdempotencyKey | None = None


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
