"""How many spot instances there are."""

import numpy as np

from auctune.run.spot.availability import Free, Recorded
from auctune.run.spot.trace import MarketTrace


def test_by_a_trace_it_is_what_the_trace_says_whoever_holds_what() -> None:
    trace = MarketTrace(np.array([0.0, 0.4, 1.0]), np.full(3, 0.3), np.array([3, 1, 4]))
    counted = Recorded(trace)
    assert [counted.at(now, held=2) for now in (0.0, 0.5, 1.0)] == [3, 1, 4]
    assert counted.least(0.1, 1.0, held=2) == 1


def test_by_room_it_is_what_is_held_and_what_fits_beside() -> None:
    counted = Free(lambda: 3)
    assert counted.at(0.0, held=2) == 5
    # What is held stays until its machine is lost.
    assert counted.least(0.0, 5.0, held=2) == 2
