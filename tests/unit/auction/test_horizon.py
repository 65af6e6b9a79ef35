"""The window of a market without an end: each slot enters once, and finds its row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auctune.auction.horizon import Horizon


@given(num_slots=st.integers(1, 6), steps=st.lists(st.integers(1, 15), min_size=1, max_size=30))
def test_rows_hold_the_slots_of_the_window_whatever_the_steps(
    num_slots: int, steps: list[int]
) -> None:
    horizon = Horizon(num_slots, rolls=True)
    rows = np.full(horizon.num_rows, -1)
    rows[horizon.rows] = np.arange(num_slots)
    now = 0
    entered = list(range(num_slots))
    for step in steps:
        now += step
        entering = horizon.entering(now)
        entered += entering
        shift = horizon.advance(now)
        shift.move(rows, np.array(entering))
        window = list(range(now, now + num_slots))
        assert rows[horizon.rows].tolist() == window
        assert [rows[slot - horizon.origin] for slot in window] == window
    assert entered == sorted(set(entered))


def test_a_market_with_an_end_stays_where_it_is() -> None:
    horizon = Horizon(5, rolls=False)
    assert not horizon.entering(3)
    assert horizon.rows == slice(0, 5)
    assert horizon.num_rows == 5
