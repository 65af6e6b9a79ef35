"""The verification of a log, whatever its zone's kind: here that of a pool."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from auctune.domain import InputError
from auctune.replay.timeshare import TimeshareVerifier
from auctune.replay.verify import Difference, VerificationResult
from auctune.service.accounts.registry import Principal, Role
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.core.events import GB_MONTH, StorageUsed, storage_charge
from support.pooled_zones import PRICE, PooledZone

UNITS = 4
ANN = Principal("key-1", "ann", "lab", Role.USER)


def recorded() -> tuple[PooledZone, list[ZoneEvent]]:
    """A job that is charged for loading, and for four units."""
    made = PooledZone()
    made.decide("job")
    made.joins("job")
    for _ in range(UNITS):
        made.trains({"job": (3, 0.7, 2.0)})
    return made, made.log.read()


def edited(events: list[ZoneEvent], event_type: str, index: int, **fields: Any) -> list[ZoneEvent]:
    """Change fields of one event, of those of a type."""
    found = [event for event in events if event.type == event_type][index]
    body = found.body | fields
    return [replace(event, body=body) if event is found else event for event in events]


def verify(made: PooledZone, events: list[ZoneEvent], first_slot: int = 0) -> VerificationResult:
    """The zone's estimate is a fixed one, so that its decision is left out."""
    verifier = TimeshareVerifier(PRICE, made.clock, [])
    return verifier.verify_log(
        events, lambda event: event.type != EventType.DECIDED and event.slot >= first_slot
    )


def test_a_log_as_written_is_identical() -> None:
    made, events = recorded()
    verified = verify(made, events)
    assert verified.is_identical
    assert verified.counts == {"decisions": 0, "charges": UNITS + 1}


@pytest.mark.parametrize("amount", ["0.0001", "99.0000"])
def test_a_wrong_charge_is_one_difference_and_later_charges_are_as_computed(amount: str) -> None:
    made, events = recorded()
    right = [event for event in events if event.type == EventType.METERED][1].body["amount"]
    log = edited(events, EventType.METERED, 1, amount=amount)
    assert verify(made, log).differences == (
        Difference("job.metered: amount", "job", amount, right),
    )


def test_a_charge_for_answers_follows_from_its_tokens_and_their_price() -> None:
    made, _ = recorded()
    made.zone.charge_tokens(ANN, "tiny", (1000, 250), Decimal("2.0000"))
    made.keep()
    events = made.log.read()
    assert events[-1].body["amount"] == "2.5000"
    assert verify(made, events).is_identical
    log = edited(events, EventType.TOKENS_USED, 0, amount="9.0000")
    (difference,) = verify(made, log).differences
    assert (difference.what, difference.found) == ("tokens.used: amount", "2.5000")


def test_a_charge_for_answers_begins_with_the_fraction_that_was_left_over() -> None:
    made, _ = recorded()
    for _ in range(3):
        made.zone.charge_tokens(ANN, "tiny", (2, 3), Decimal("0.0100"))
    made.keep()
    events = made.log.read()
    bodies = [one.body for one in events if one.type == EventType.TOKENS_USED]
    assert [Decimal(one["amount"]) for one in bodies] == [0, Decimal("0.0001"), 0]
    assert [Decimal(one["carried"]) * 10**5 for one in bodies] == [5, 0, 5]
    assert verify(made, events).is_identical
    log = edited(events, EventType.TOKENS_USED, 1, carried="0.0000900")
    found = {one.what for one in verify(made, log).differences}
    assert found == {"tokens.used: carried", "tokens.used: amount"}


def test_a_charge_of_an_earlier_release_was_rounded() -> None:
    made, _ = recorded()
    made.zone.charge_tokens(ANN, "tiny", (2, 7), Decimal("0.0100"))
    made.keep()
    log = edited(made.log.read(), EventType.TOKENS_USED, 0, amount="0.0001")
    (charge,) = [one for one in log if one.type == EventType.TOKENS_USED]
    charge.body["carried"] = None
    assert verify(made, log).is_identical


def test_a_charge_for_storage_follows_from_what_was_stored_and_from_the_rest_before() -> None:
    made, _ = recorded()
    amount, carried = storage_charge(3 * GB_MONTH + 1, Decimal("0.0100"), 7)
    charge = StorageUsed(
        user="ann",
        team=None,
        since=0,
        until=86_400,
        byte_seconds=3 * GB_MONTH + 1,
        price=Decimal("0.0100"),
        carried_before=7,
        amount=amount,
        carried=carried,
    )
    made.zone.charge_storage([charge])
    made.keep()
    events = made.log.read()
    assert (events[-1].body["amount"], events[-1].body["carried"]) == ("0.0300", 107)
    assert verify(made, events).is_identical
    log = edited(events, EventType.STORAGE_USED, 0, amount="0.0400")
    (difference,) = verify(made, log).differences
    assert (difference.what, difference.found) == ("storage.used: amount", "0.0300")


def test_events_before_the_range_are_applied_as_recorded() -> None:
    made, events = recorded()
    log = edited(events, EventType.METERED, 1, amount="0.0001")
    slot = [event for event in events if event.type == EventType.METERED][1].slot
    verified = verify(made, log, first_slot=slot + 1)
    assert verified.is_identical
    assert 0 < verified.counts["charges"] < UNITS


def test_an_event_of_a_job_that_is_not_open_cannot_have_happened() -> None:
    made, events = recorded()
    last = events[-1]
    stray = replace(last, seq=last.seq + 1, type=EventType.PAUSED, job="other", body={})
    assert verify(made, [*events, stray]).differences == (
        Difference("job.paused", "other", f"event {stray.seq}", "cannot have happened"),
    )


def test_an_event_that_cannot_be_read_is_an_error_with_its_number() -> None:
    made, events = recorded()
    log = [replace(one, body={}) if one.type == EventType.METERED else one for one in events]
    number = next(event.seq for event in log if event.type == EventType.METERED)
    with pytest.raises(InputError, match=f"event {number}: cannot be read"):
        verify(made, log)
