"""How many spot instances there are."""

import numpy as np

from auctune.engine.spot.provider import ClusterCapacity, TraceCapacity
from auctune.engine.spot.traces import MarketTrace


def test_by_a_trace_it_is_what_the_trace_says_whoever_holds_what() -> None:
    trace = MarketTrace(np.array([0.0, 0.4, 1.0]), np.full(3, 0.3), np.array([3, 1, 4]))
    counted = TraceCapacity(trace)
    assert [counted.current(now, held=2) for now in (0.0, 0.5, 1.0)] == [3, 1, 4]
    assert counted.minimum_since(0.1, 1.0, held=2) == 1


def test_by_room_it_is_what_is_held_and_what_fits_beside() -> None:
    counted = ClusterCapacity(lambda: 3)
    assert counted.current(0.0, held=2) == 5
    # What is held stays until its machine is lost.
    assert counted.minimum_since(0.0, 5.0, held=2) == 2
