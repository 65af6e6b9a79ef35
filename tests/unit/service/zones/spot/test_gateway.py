"""What an operator sees of a spot zone."""

from auctune.engine.unix_time import SlotClock
from auctune.service.zones.spot.gateway import market_section
from auctune.service.zones.spot.state import SlotStats

CLOCK = SlotClock(epoch=1000.0, slot_seconds=60.0, now=lambda: 1000.0)


def test_a_market_is_in_money_its_chart_from_its_first_slot_its_table_from_the_newest() -> None:
    slots = [SlotStats(slot, 0.5, 3, on_demand=1, spot=2) for slot in (40, 41)]
    section = market_section(slots, 3.0, 2.0, CLOCK)
    assert section.rows == ((41, 3460.0, 1.5, 3, 1, 2), (40, 3400.0, 1.5, 3, 1, 2))
    (chart,) = section.charts
    assert chart.data["slots"] == [
        {"slot": slot, "price": 1.5, "available": 3, "on_demand": 1, "spot": 2} for slot in (0, 1)
    ]
    assert chart.data["on_demand_price"] == 3.0
    assert chart.data["times"] == {"start": 3400.0, "seconds": 60.0}
    empty = market_section([], 3.0, 2.0, CLOCK)
    assert (empty.rows, empty.charts) == ((), ())
