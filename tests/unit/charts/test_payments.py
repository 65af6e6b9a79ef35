from decimal import Decimal
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from auctune.charts import Bill, payment_chart, to_svg
from auctune.charts.payments import ASKED, UNCOVERED, _split, select_bills


def test_a_payment_is_split_into_its_parts_and_the_bid_is_marked() -> None:
    bills = [
        Bill("won", Decimal(9), Decimal("5.5"), Decimal("1.25"), Decimal("0.75")),
        Bill("lost", Decimal(2), asked=Decimal(4)),
        Bill("hopeless", Decimal(3)),
    ]
    svg = to_svg(payment_chart(bills))
    for words in (
        "won: vendor 1.2500",
        "won: operating cost 0.7500",
        "won: market price 3.5000",
        "won: bid 9",
        f"lost: {ASKED} 4.0000",
        "hopeless: bid 3",
    ):
        assert words in svg, words
    assert UNCOVERED not in svg


def test_costs_beyond_the_payment_are_shown_as_not_covered() -> None:
    bill = Bill("cheap", Decimal(5), Decimal(2), Decimal(1), Decimal(3))
    parts = {segment["part"]: (segment["begin"], segment["end"]) for segment in _split(bill)}
    assert parts == {"vendor": (0, 1), "operating cost": (1, 2), UNCOVERED: (2, 4)}


MONEY = st.decimals(0, 100, places=4)


@given(payment=st.decimals("0.0001", 100, places=4), vendor=MONEY, operating=MONEY)
def test_parts_join_without_gaps_and_end_at_payment_or_cost(
    payment: Decimal, vendor: Decimal, operating: Decimal
) -> None:
    segments = list(_split(Bill("x", payment, payment, vendor, operating)))
    assert segments[0]["begin"] == 0
    for left, right in pairwise(segments):
        assert left["end"] == right["begin"]
    assert segments[-1]["end"] == float(max(payment, vendor + operating))
    assert any(segment["end"] == float(payment) for segment in segments)


def test_of_many_bills_the_largest_are_shown_in_their_order() -> None:
    bills = [Bill(f"t{i}", Decimal(i), Decimal(i)) for i in range(100)]
    assert [bill.task for bill in select_bills(bills)] == [f"t{i}" for i in range(60, 100)]
