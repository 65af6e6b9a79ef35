"""Units that are slots of a real clock."""

import threading

from auctune.run.open_pool.pace import LaterPace, SlotPace, unit_now
from auctune.run.timeshare.pace import CountedPace, Unit


def test_units_are_slots_however_long_nobody_was_there() -> None:
    now = [1000.0 + 12.5 * 3]
    pace = SlotPace(1000.0, 12.5, threading.Event(), lambda: now[0])
    pace.start(0.5)
    assert pace.moment() == 3.0
    assert pace.next_unit(1) == Unit(3, 1.0)
    now[0] += 125.0
    assert unit_now(pace, 4) == 13
    assert pace.next_unit(5).time == 13


def test_a_unit_ends_when_the_pool_is_to_stop() -> None:
    stop = threading.Event()
    pace = SlotPace(0.0, 10.0, stop, lambda: 25.0)
    pace.start(0.0)
    unit = pace.next_unit(0)
    assert not pace.is_over(unit)
    stop.set()
    assert pace.is_over(unit)
    # It does not sleep until a unit that is far away, either.
    assert pace.next_unit(100).time == 100


def test_no_unit_comes_before_what_others_trained() -> None:
    pace = LaterPace(CountedPace(), lambda: 7)
    assert pace.next_unit(2) == Unit(8, 1.0)
    assert pace.next_unit(11) == Unit(11, 1.0)
