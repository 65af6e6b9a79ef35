"""Prices and use of a zone's resources, as a table and as charts."""

from auctune.engine.unix_time import SlotClock
from auctune.service.zones.core.sections import Section, price_section, with_state

CLOCK = SlotClock(epoch=400.0, slot_seconds=60.0, now=lambda: 1000.0)
PRICE = [[0.001, 0.25], [0.0, 0.5]]
USED = [[0.0, 0.5], [0.0, 1.0]]


def section(price: list[list[float]], used: list[list[float]]) -> Section:
    return price_section("Compute", "Prices.", "compute", ["a", "b"], price, used, 10, CLOCK)


def test_a_row_has_the_price_and_the_use_of_each_resource_in_a_slot() -> None:
    table = section(PRICE, USED)
    assert [column.name for column in table.columns] == [
        "slot",
        "begins",
        "a",
        "a in use",
        "b",
        "b in use",
    ]
    assert table.rows == (
        (10, 1000.0, 0.001, 0.0, 0.25, 0.5),
        (11, 1060.0, 0.0, 0.0, 0.5, 1.0),
    )


def test_charts_say_where_price_and_use_are_highest() -> None:
    price, use = section(PRICE, USED).charts
    assert (price.chart, use.chart) == ("compute-price", "compute-use")
    assert (price.data["values"], use.data["values"]) == (PRICE, USED)
    assert price.data["times"] == {"start": 1000.0, "seconds": 60.0}
    assert price.data["busiest"] == 1.0
    assert price.text == "Compute. Price: 0 to 0.5 in 2 slots, highest on b"
    assert use.text == "Compute. In use: 0% to 100% in 2 slots, highest on b"
    flat, _ = section([[0.0, 0.0]] * 5, [[0.0, 0.5]] * 5).charts
    assert flat.text == "Compute. Price: 0 everywhere in 5 slots"
    assert flat.data["busiest"] == 0.5


def test_only_what_is_not_up_is_followed_by_its_state() -> None:
    assert (with_state("a", "up"), with_state("b", "lost")) == ("a", "b (lost)")
