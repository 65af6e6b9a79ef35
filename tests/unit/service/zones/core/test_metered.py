"""Meters: what is charged, held and released."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import Money
from auctune.service.ledger import Entry
from auctune.service.zones.core.events import adapter
from auctune.service.zones.core.job import Meter


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
    assert sum(entry.amount for entry in entries) == 0
    end = sums(entries)
    assert end.get("hold:ada", 0) == end.get("held", 0) == 0
    assert end.get("user:ada", 0) == (0 if refunded else charged)


def test_a_number_is_charged_once() -> None:
    meter = Meter("ada", Decimal(10))
    meter.charge(3, Decimal(1))
    assert [meter.is_charged(slot) for slot in (0, 3, 4)] == [True, True, False]
    with pytest.raises(AssertionError):
        meter.charge(3, Decimal(1))
