import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError, Quote
from auctune.service.vendors import DataFacts, Offer, Order

FACTS = DataFacts(3, 100, "ab" * 32)


@given(st.integers(0, 10**7), st.integers(1, 100_000))
def test_a_delay_is_the_fewest_whole_slots_that_hold_it(delay: int, tenths: int) -> None:
    quote = Offer("v", "o", Decimal(1), delay, 0.0).to_quote(tenths / 10)
    assert quote.delay * tenths >= delay * 10 > (quote.delay - 1) * tenths


def test_an_offer_is_a_quote_with_the_vendors_price() -> None:
    offer = Offer("v", "o", Decimal("1.2500"), 61, 0.0)
    assert offer.to_quote(60.0) == Quote("v", Decimal("1.2500"), 2)


def test_an_order_survives_json() -> None:
    order = Order("order-1", "offer", Decimal("1.2500"), FACTS)
    assert Order.from_json(json.loads(json.dumps(order.to_json()))) == order


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "x" * 65, "ö", "a\n"])
def test_an_order_is_named_so_that_it_can_stand_in_a_path(name: str) -> None:
    with pytest.raises(InputError, match="id"):
        Order(name, "offer", Decimal(1), FACTS)
