"""A metered job: its cap set aside, each slot or unit charged once within it, the rest released."""

from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise

from auctune.service.event_writer import to_minor_units
from auctune.service.ledger import (
    HELD,
    INSTANCE_COSTS,
    REVENUE,
    hold_account,
    provider_account,
    user_account,
)
from auctune.service.storage.events import EventType
from auctune.service.zones.timeshare.events import TimeshareEventType
from soak.audit.story import check_refund, check_story
from soak.log import Story


def check_metered(story: Story) -> Iterator[str]:
    """What is wrong with a job of a metered zone."""
    yield from check_story(story)
    if story.decision is None or not story.is_admitted:
        if story.booked:
            yield f"{story.job} was not admitted, and has entries"
        return
    yield from check_refund(story)
    yield from _check_entries(story)
    numbers = [event.body["slot"] for event in story.of(EventType.METERED)]
    if any(later <= sooner for sooner, later in pairwise(numbers)):
        yield f"{story.job}: slots were charged twice, or out of order: {numbers}"
    units = list(_charged_units(story))
    if len(set(units)) < len(units):
        yield f"{story.job}: units were charged twice: {units}"


def _charged_units(story: Story) -> Iterator[int]:
    """Units whose training was charged; that a job was loaded in one is charged beside it."""
    for before, event in pairwise(story.events):
        is_load = before.type == TimeshareEventType.JOINED_POOL and not event.body.get("share")
        if event.type == EventType.METERED and "unit" in event.body and not is_load:
            yield event.body["unit"]


def _check_entries(story: Story) -> Iterator[str]:
    assert story.decision is not None
    body = story.decision.body
    cap = _steps(body.get("held", body["decision"]["max_cost"]))
    metered = story.of(EventType.METERED)
    used = [_steps(event.body["amount"]) for event in metered]
    costs = [_steps(event.body["cost"]) for event in metered]
    charged = sum(used)
    if charged > cap:
        yield f"{story.job} was charged {charged}, above its cap of {cap}"
    back = [-charged] if story.is_refunded else []
    held = _held(story, cap)
    expected = {
        user_account(story.owner): [*used, *back],
        REVENUE: [-amount for amount in (*used, *back)],
        HELD: held,
        hold_account(story.owner): [-amount for amount in held],
        INSTANCE_COSTS: costs,
        provider_account(story.events[0].zone): [-cost for cost in costs],
    }
    for account, amounts in expected.items():
        found = story.amounts(account)
        if found != [amount for amount in amounts if amount]:
            yield f"{story.job}: {account} has {found}, where {amounts} is right"


def _held(story: Story, cap: int) -> list[int]:
    """Return the entries on `held`: the cap, what was used or released of it, and the rest."""
    entries = [-cap]
    for event in story.events:
        if event.type == EventType.METERED:
            entries.append(_steps(event.body["amount"]))
        elif event.type == EventType.CANCELLED and "held" in event.body:
            entries.append(-sum(entries) - _steps(event.body["held"]))
    return [*entries, -sum(entries)]


def _steps(amount: str) -> int:
    return to_minor_units(Decimal(amount))
