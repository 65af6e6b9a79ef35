"""Verification of an edge zone's log."""

import copy
from collections.abc import Iterator
from dataclasses import replace

import pytest

from auctune.domain import Money
from auctune.replay.edge import EdgeVerifier
from auctune.service.storage.event_log import EventType, ZoneEvent
from support.edge_zones import MadeUpEdge, edge_constants

MANY = {"a": 48, "b": 48}


@pytest.fixture(autouse=True, scope="module")
def _small_chunks() -> Iterator[None]:
    with edge_constants():
        yield


def eventful() -> MadeUpEdge:
    """Bids, a line, a budget, a pause, a torn slot, a lost site and a restart."""
    made = MadeUpEdge()
    made.decide("first", "90", 9, samples=MANY)
    made.decide("low", "0.01", 5)
    made.decide("late", "90", 1, samples=MANY)
    line = made.menu(made.bid("line", "0", 9)).lines[-1]
    assert made.zone.accept(made.bid("line", str(line.price), 9), line) is not None
    made.decide("poor", "50", 8, remaining_budget=lambda: Money("0.0001"))
    asked = made.bid("poor line", str(line.price), 9, remaining_budget=lambda: Money("0.0001"))
    assert made.zone.accept(asked, line) is not None
    made.pass_slots()
    slot = made.zone.state.slot
    made.hear(kind="slot_lost", job="first", slot=slot, why="it was not finished in time")
    made.hear(kind="slot_done", slot=slot)
    made.zone.pause("line")
    made.keep()
    made.hear(kind="site_lost", site="c")
    made.pass_slots()
    made.zone.resume("line")
    made.keep()
    made.clock.time += 20.0
    made.restart()
    made.decide("last", "30", 6)
    return made


def test_a_log_is_identical() -> None:
    made = eventful()
    events = made.log.read()
    kinds = {event.type for event in events}
    assert {"job.replanned", "job.resumed", "site.lost"} <= kinds
    verified = EdgeVerifier(made.record).verify_log(events)
    assert verified.differences == ()
    assert verified.counts["decisions"] == 7


def changed(made: MadeUpEdge, job: str, kind: str, **fields: object) -> list[ZoneEvent]:
    events = []
    for event in made.log.read():
        if (event.job, event.type) == (job, kind):
            body = copy.deepcopy(event.body)
            for name, value in fields.items():
                outer, _, inner = name.partition("__")
                if inner:
                    body[outer][inner] = value
                else:
                    body[outer] = value
            event = replace(event, body=body)
        events.append(event)
    return events


def test_a_price_a_reason_and_a_plan_that_were_changed_are_found() -> None:
    made = eventful()
    for events, what in (
        (changed(made, "first", EventType.DECIDED, decision__payment="1.0000"), "decision.payment"),
        (changed(made, "low", EventType.DECIDED, decision__price="9.0000"), "decision.price"),
        (changed(made, "late", EventType.DECIDED, earliest=3), "earliest"),
        (changed(made, "line", EventType.RESUMED, found=[]), "found"),
    ):
        found = EdgeVerifier(made.record).verify_log(events).differences
        assert any(one.what.endswith(what) for one in found), what
