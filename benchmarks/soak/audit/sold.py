"""A job that was sold at a price: charged once, refunded whole or not at all, trained once."""

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

from auctune.service.event_writer import to_minor_units
from auctune.service.ledger import ENERGY_COSTS, HELD, REVENUE, VENDOR_COSTS, user_account
from auctune.service.storage.events import EventType
from auctune.service.zones.auction.events import AuctionEventType
from soak.audit.story import check_refund, check_story
from soak.log import Story


def check_sold(story: Story) -> Iterator[str]:
    """What is wrong with a job of an auction."""
    yield from check_story(story)
    if story.decision is None or not story.is_admitted:
        if story.booked:
            yield f"{story.job} was not admitted, and has entries"
        return
    yield from check_refund(story)
    yield from _check_entries(story)
    yield from _check_slots(story)


def _check_entries(story: Story) -> Iterator[str]:
    assert story.decision is not None
    paid = to_minor_units(Decimal(story.decision.body["decision"]["payment"]))
    is_back = story.is_refunded
    expected = {
        user_account(story.owner): [paid, -paid] if is_back else [paid],
        HELD: [-paid, paid],
        REVENUE: [] if is_back else [-paid],
    }
    for account, amounts in expected.items():
        found = story.amounts(account)
        if found != [amount for amount in amounts if amount]:
            yield f"{story.job}: {account} has {found}, where {amounts} is right"
    num_repairs = len(story.of(AuctionEventType.REPAIRED))
    if num_repairs > 1 or len(story.amounts(VENDOR_COSTS)) > num_repairs:
        yield f"{story.job}: mended {num_repairs} times, {story.amounts(VENDOR_COSTS)} paid for it"
    if len(story.amounts(ENERGY_COSTS)) > len(story.of(EventType.TRAINED)):
        yield f"{story.job}: energy was paid for slots that were not trained"


def _check_slots(story: Story) -> Iterator[str]:
    slots = Counter(event.body["slot"] for event in story.of(EventType.TRAINED))
    yield from (
        f"{story.job}: slot {slot} is on record {n} times" for slot, n in slots.items() if n > 1
    )
    results = [event.body["result"] for event in story.of(EventType.TRAINED)]
    rows = [result["rows"] for result in results]
    if rows != sorted(rows):
        yield f"{story.job}: what it has trained went back: {rows}"
    if story.events[-1].type == EventType.FINISHED and (
        not results or results[-1]["state"] != "done"
    ):
        yield f"{story.job} is finished and was not trained to its end"
