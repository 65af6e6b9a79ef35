"""Meters, estimates and their acceptance."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import Money
from auctune.service.jobs.quotes import Quote
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.training import Training
from auctune.service.ledger import Entry, is_balanced
from auctune.service.zones.core.acceptance import degradation_reason
from auctune.service.zones.core.events import adapter
from auctune.service.zones.core.metered import Estimate, EstimateOffer, Meter


def sums(entries: list[Entry]) -> dict[str, Money]:
    found: dict[str, Money] = {}
    for entry in entries:
        found[entry.account] = found.get(entry.account, Decimal(0)) + entry.amount
    return found


MONEY = st.integers(0, 10**7).map(lambda steps: Decimal(steps).scaleb(-4))


@given(MONEY, st.lists(MONEY, max_size=8), st.booleans())
def test_what_is_charged_is_owed_and_nothing_stays_set_aside(
    cap: Money, wanted: list[Money], refunded: bool
) -> None:
    meter = Meter("ada", cap)
    entries = [*meter.begin()]
    assert sums(entries).get("hold:ada", 0) == cap
    charged = Decimal(0)
    for slot, amount in enumerate(wanted):
        amount = min(amount, meter.remaining)
        entries += meter.charge(slot, amount)
        charged += amount
        meter = adapter(Meter).validate_json(adapter(Meter).dump_json(meter))
        now = sums(entries)
        assert now.get("user:ada", 0) == charged == -now.get("revenue", 0)
        assert now.get("hold:ada", 0) == cap - charged == -now.get("held", 0)
    entries += meter.end(refunded=refunded)
    assert is_balanced(entries)
    end = sums(entries)
    assert end.get("hold:ada", 0) == end.get("held", 0) == 0
    assert end.get("user:ada", 0) == (0 if refunded else charged)


def test_a_number_is_charged_once() -> None:
    meter = Meter("ada", Decimal(10))
    meter.charge(3, Decimal(1))
    assert [meter.is_charged(slot) for slot in (0, 3, 4)] == [True, True, False]
    with pytest.raises(AssertionError):
        meter.charge(3, Decimal(1))


SHOWN = Estimate(Money("2.0000"), Money("3.0000"), 100.0, 150.0, 0.05)


def quote(risk: float = 0.1, deadline: float = 200.0) -> Quote:
    asked = {"model": "tiny", "training_file": "file-a", "market": {"risk": risk}}
    request = JobRequest.model_validate(asked)
    offer = EstimateOffer(SHOWN, None)
    return Quote("quote-a", "ada", "z", "spot", request, Training("file-a"), offer, deadline, 0.0)


@pytest.mark.parametrize(
    ("now", "is_worse"),
    [
        ({}, False),
        ({"expected_cost": Money("2.9000"), "finish": 149.0}, False),
        ({"p90_cost": Money("3.0001")}, True),
        ({"finish_p90": 200.0}, False),
        ({"finish_p90": 200.1}, True),
        ({"risk": 0.1}, False),
        ({"risk": 0.11}, True),
    ],
)
def test_an_estimate_is_worse_by_what_was_shown_or_wished(
    now: dict[str, Any], is_worse: bool
) -> None:
    assert (degradation_reason(quote(), replace(SHOWN, **now)) is not None) == is_worse


def test_what_was_shown_worse_than_wished_may_stay_so() -> None:
    late = replace(SHOWN, finish_p90=150.0, risk=0.05)
    assert degradation_reason(quote(risk=0.0, deadline=120.0), late) is None
