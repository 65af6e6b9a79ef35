"""The soak's audit passes what a market did right, and names each thing that was done wrong."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from auctune.domain import Money
from auctune.service.event_writer import to_minor_units
from auctune.service.ledger import Entry, instance_cost
from auctune.service.storage.events import EventType, ZoneEvent
from auctune.service.storage.read_model import JobReadModel, Status
from auctune.service.zones.core.metered import Meter
from auctune.service.zones.timeshare.events import TimeshareEventType
from soak.audit.acknowledged import check_acknowledged
from soak.audit.books import check_books
from soak.audit.metered import check_metered
from soak.audit.sold import check_sold
from soak.diary import Deeds, Diary, Request
from soak.log import OVER, Booked, Log, Story
from support.zone_player import ZonePlayer
from support.zones import MadeUpZone

Harm = Callable[[Story], None]


@pytest.fixture(scope="module")
def sold() -> list[Story]:
    """Jobs that are over, of an auction to which everything happened."""
    made = MadeUpZone()
    player = ZonePlayer(made, np.random.default_rng(37))
    for _ in range(160):
        player.step()
    stories: dict[str, Story] = {}
    for event in made.log.read():
        if event.job is not None:
            stories.setdefault(event.job, Story(event.job)).events.append(event)
    for event, entries in made.log.entries:
        if event.job is not None:
            stories[event.job].booked += booked(event, entries)
    for name, story in stories.items():
        story.row = made.log.rows[name]
    return [one for one in stories.values() if is_over(one)]


def is_over(story: Story) -> bool:
    rejected = story.decision is not None and not story.is_admitted
    return rejected or story.events[-1].type in OVER


def booked(event: ZoneEvent, entries: tuple[Entry, ...]) -> list[Booked]:
    return [
        Booked(event.seq, event.job, one.account, to_minor_units(one.amount)) for one in entries
    ]


def rented(*, refunded: bool = False) -> Story:
    """A job whose cap is 1, charged 0.3 and 0.2; the service's costs are half of it."""
    row = JobReadModel("job", "rented", 1, "ann", 1.0, Status.SUCCEEDED, {})
    story, meter = Story("job", row=row), Meter("ann", Money("1"))

    def happen(kind: str, entries: tuple[Entry, ...], **body: Any) -> None:
        event = ZoneEvent(len(story.events) + 1, "rented", 1, 1.0, kind, "job", body)
        story.events.append(event)
        story.booked.extend(booked(event, entries))

    decision = {"admitted": True, "reason": None, "max_cost": "1.0000"}
    request = {"metadata": {"token": "ann-1"}}
    happen(EventType.DECIDED, meter.begin(), owner="ann", request=request, decision=decision)
    for slot, amount in enumerate(("0.3", "0.2")):
        cost = str(Money(amount) / 2)
        entries = meter.charge(slot, Money(amount)) + instance_cost("rented", Money(cost))
        happen(EventType.METERED, entries, slot=slot, amount=amount, cost=cost)
    if refunded:
        happen(EventType.FAILED, meter.end(refunded=True), code="service_failed", refund=True)
    else:
        happen(EventType.FINISHED, meter.end(refunded=False), files=["file-a"])
    return story


def test_what_an_auction_did_passes(sold: list[Story]) -> None:
    assert [wrong for story in sold for wrong in check_sold(story)] == []
    ends = {story.events[-1].type for story in sold}
    assert {EventType.FINISHED, EventType.CANCELLED, EventType.FAILED, EventType.DECIDED} <= ends
    assert any(story.is_refunded for story in sold)


def again(kind: str) -> Harm:
    """An event is on record twice."""

    def harm(story: Story) -> None:
        place = next(i for i, one in enumerate(story.events) if one.type == kind)
        story.events.insert(place, story.events[place])

    return harm


def cheaper(story: Story) -> None:
    one = next(one for one in story.booked if one.account.startswith("user:"))
    story.booked[story.booked.index(one)] = replace(one, amount=one.amount - 1)


def never_earned(story: Story) -> None:
    story.booked = [one for one in story.booked if one.account != "revenue"]


def refunded_too(story: Story) -> None:
    paid = next(one for one in story.booked if one.account.startswith("user:"))
    story.booked.append(replace(paid, amount=-paid.amount))


def goes_on(story: Story) -> None:
    story.events.append(next(one for one in story.events if one.type == EventType.TRAINED))


def unknown_to_readers(story: Story) -> None:
    story.row = None


@pytest.mark.parametrize(
    "harm",
    [
        again(EventType.DECIDED),
        again(EventType.TRAINED),
        again(EventType.FINISHED),
        cheaper,
        never_earned,
        refunded_too,
        goes_on,
        unknown_to_readers,
    ],
)
def test_what_was_done_wrong_with_a_sold_job_is_named(sold: list[Story], harm: Harm) -> None:
    finished = (one for one in sold if one.events[-1].type == EventType.FINISHED)
    story = deepcopy(next(one for one in finished if one.amounts("revenue")))
    harm(story)
    assert list(check_sold(story))


def kept_the_money(story: Story) -> None:
    last = replace(story.events[-1], body={**story.events[-1].body, "refund": False})
    story.events[-1] = last


@pytest.mark.parametrize("refunded", [False, True])
def test_a_metered_job_passes_and_what_was_done_wrong_with_it_is_named(*, refunded: bool) -> None:
    assert list(check_metered(rented(refunded=refunded))) == []
    harms = [again(EventType.METERED), cheaper, never_earned, refunded_too]
    for harm in [*harms, *([kept_the_money] if refunded else [])]:
        story = rented(refunded=refunded)
        harm(story)
        assert list(check_metered(story)), harm


def test_a_charge_above_the_cap_is_named() -> None:
    story = rented()
    decided = story.events[0]
    decision = {**decided.body["decision"], "max_cost": "0.4000"}
    story.events[0] = replace(decided, body={**decided.body, "decision": decision})
    assert any("above its cap" in one for one in check_metered(story))


def test_loading_and_one_charge_a_unit_pass_and_a_second_charge_is_named() -> None:
    def charged(*units: tuple[int, float]) -> Story:
        """A job of a pool, charged for being loaded in unit 7 and for its shares of units."""
        story, meter = rented(), Meter("ann", Money("1"))
        story.events = story.events[:1]
        decided = story.events[0]
        story.booked = booked(decided, meter.begin())

        def happen(kind: str, entries: tuple[Entry, ...], **body: Any) -> None:
            event = replace(decided, seq=len(story.events) + 1, type=kind, body=body)
            story.events.append(event)
            story.booked += booked(event, entries)

        happen(TimeshareEventType.JOINED_POOL, (), unit=7)
        for slot, (unit, share) in enumerate([(7, 0.0), *units]):
            body = {"slot": slot, "unit": unit, "share": share, "amount": "0.1", "cost": "0"}
            happen(EventType.METERED, meter.charge(slot, Money("0.1")), **body)
        happen(EventType.FINISHED, meter.end(refunded=False), files=["file-a"])
        return story

    assert list(check_metered(charged((7, 0.5), (8, 1.0)))) == []
    for twice in [(7, 0.5), (7, 0.5)], [(7, 0.0), (7, 0.5)], [(8, 1.0), (8, 1.0)]:
        assert any("charged twice" in one for one in check_metered(charged(*twice)))


def test_a_cancelled_job_of_a_pool_is_over_once_it_is_settled() -> None:
    def cancelled(*, held: str, settled: bool) -> Story:
        """A job of a pool, charged 0.3 and 0.2 and, after it was cancelled, 0.1."""
        story, meter = rented(), Meter("ann", Money("1"))
        meter.charge(0, Money("0.3"))
        meter.charge(1, Money("0.2"))
        story.events, story.booked = story.events[:-1], story.booked[:-2]

        def happen(kind: str, entries: tuple[Entry, ...], **body: Any) -> None:
            event = replace(story.events[0], seq=len(story.events) + 1, type=kind, body=body)
            story.events.append(event)
            story.booked.extend(booked(event, entries))

        happen(EventType.CANCELLED, meter.lower(Money(held)), held=held)
        happen(EventType.METERED, meter.charge(2, Money("0.1")), slot=2, amount="0.1", cost="0")
        if settled:
            happen(TimeshareEventType.SETTLED, meter.end(refunded=False))
        return story

    for held in ("0.5000", "0.2000", "0.1000"):
        assert list(check_metered(cancelled(held=held, settled=True))) == []
    assert list(check_metered(cancelled(held="0.2000", settled=False)))
    story = cancelled(held="0.2000", settled=True)
    story.booked.pop()
    assert list(check_metered(story))


def asked(**changes: Any) -> Request:
    request = Request("ann-1", b"", {}, is_repeatable=True, jobs={"job"}, tries=1)
    return replace(request, **changes)


def disagreements(request: Request, *stories: Story, deeds: Deeds | None = None) -> list[str]:
    diary = Diary("ann", "key", [request], deeds={} if deeds is None else {"job": deeds})
    log = Log({}, [], {one.job: one for one in stories})
    return list(check_acknowledged(log, [diary], lambda _: []))


def shown(**market: Any) -> dict[str, Any]:
    part = {"decision": "admitted", "reason": None, "payment": None, "plan": None}
    return {"market": {**part, "metered": {"max_cost": "1.0000"}, **market}}


def test_clients_and_log_that_agree_pass() -> None:
    assert disagreements(asked(first=shown()), rented()) == []
    # Whoever was not answered does not know.
    assert disagreements(asked(jobs=set(), lost=1), rented()) == []
    assert disagreements(asked(jobs=set(), refused=(400, "bad"))) == []
    assert disagreements(asked(), rented(), deeds=Deeds()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: disagreements(asked()),
        lambda: disagreements(asked(), rented(), replace(rented(), job="another")),
        lambda: disagreements(asked(jobs=set(), refused=(400, "bad")), rented()),
        lambda: disagreements(asked(jobs=set(), lost=1, tries=1, makes_job=False), rented()),
        lambda: disagreements(asked(token="ann-2", jobs=set(), lost=1), rented()),
        lambda: disagreements(asked(first=shown(decision="rejected")), rented()),
        lambda: disagreements(asked(first=shown(metered={"max_cost": "2"})), rented()),
    ],
)
def test_each_disagreement_of_clients_and_log_is_named(wrong: Callable[[], list[str]]) -> None:
    assert wrong()


def test_a_cancel_that_was_acknowledged_and_is_not_on_record_is_named() -> None:
    deeds = Deeds()
    deeds.done["cancel"] += 1
    assert disagreements(asked(), rented(), deeds=deeds)


def books(story: Story, budget: str = "1") -> Iterator[str]:
    sums: dict[str, int] = {}
    for one in story.booked:
        sums[one.account] = sums.get(one.account, 0) + one.amount
    said = {name: str(Decimal(total).scaleb(-4)) for name, total in sums.items()}
    return check_books(Log({}, story.booked, {}), said, {"ann": Decimal(budget)})


def test_books_balance_within_the_budget_and_what_does_not_is_named() -> None:
    assert list(books(rented())) == []
    assert list(books(rented(), "0.9")) == ["user:ann owes more than its budget"]
    story = rented()
    cheaper(story)
    assert any("do not balance" in one for one in books(story))
