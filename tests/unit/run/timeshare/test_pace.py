"""Time in a run, by a clock that is turned by hand."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.run.timeshare.pace import LEAST_SPAN, CountedPace, Unit, WallPace


@dataclass
class Hand:
    """A clock that goes on when it is told to."""

    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


def wall(hand: Hand) -> WallPace:
    pace = WallPace(2.0, hand, hand.wait)
    pace.start(0.0)
    return pace


def test_a_unit_ends_when_the_clock_says_so_however_long_the_one_before_took() -> None:
    hand = Hand()
    pace = wall(hand)
    assert pace.next_unit(0) == Unit(0, 1.0)
    hand.wait(2.5)
    late = pace.next_unit(1)
    assert late.time == 1
    assert late.span == pytest.approx(0.75)
    hand.wait(0.5)
    early = pace.next_unit(2)
    # Trained through half a unit early: the next one begins now.
    assert early.time == 2
    assert early.span == pytest.approx(1.5)
    assert not pace.is_over(early)
    hand.wait(3.0)
    assert pace.is_over(early)


def test_units_that_went_by_are_left_out_and_a_rest_of_one_too() -> None:
    hand = Hand()
    pace = wall(hand)
    hand.wait(2.0 * (3 + 1 - LEAST_SPAN / 2))
    unit = pace.next_unit(1)
    assert unit.time == 4
    assert unit.span == pytest.approx(1 + LEAST_SPAN / 2)


def test_nobody_waits_longer_than_for_the_unit_before() -> None:
    hand = Hand()
    pace = wall(hand)
    unit = pace.next_unit(5)
    assert unit.time == 5
    assert unit.span == pytest.approx(2.0)
    assert pace.moment() == pytest.approx(4.0)


def test_the_clock_stands_still_while_a_run_is_not_there() -> None:
    hand = Hand()
    pace = wall(hand)
    hand.wait(1000.0)
    pace.start(7.25)
    assert pace.moment() == pytest.approx(7.25)


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0.5, 50)), min_size=1, max_size=6),
    st.floats(0.2, 2.0),
)
def test_what_is_trained_fits_into_the_unit_in_proportion(
    threads: list[tuple[float, float]], span: float
) -> None:
    due, rates = (np.array(column) for column in zip(*threads, strict=True))
    room = wall(Hand()).room(Unit(0, span), due, rates)
    assert float((room / rates).sum()) <= span * (1 + 1e-9)
    assert np.allclose(room * due.sum(), due * room.sum())
    assert (room <= due).all()
    assert np.array_equal(CountedPace().room(Unit(0, span), due, rates), due)


def test_rates_follow_what_was_measured_and_rest_where_nothing_was() -> None:
    pace = wall(Hand())
    rates = np.array([10.0, 10.0, 10.0])
    for _ in range(40):
        seen = np.array([20.0, 1.0, 0.0]), np.array([1.0, 0.1, 0.0])
        rates = pace.rates(rates, *seen, np.zeros(3, dtype=np.bool_))
    assert rates[0] == pytest.approx(40.0, rel=1e-4)
    assert 10.0 < rates[1] < 20.0
    assert rates[2] == 10.0
    before = np.array([3.0])
    new = np.array([True])
    assert CountedPace().rates(before, np.array([9.0]), np.array([1.0]), new) is before


def test_the_rate_of_a_new_thread_is_what_its_first_batches_show() -> None:
    rates, new = np.array([100.0, 100.0, 100.0]), np.ones(3, dtype=np.bool_)
    found = wall(Hand()).rates(rates, np.array([5.0, 1.0, 0.0]), np.array([1.0, 0.2, 0.0]), new)
    assert found[0] == 10.0
    assert 10.0 < found[1] < 100.0
    assert found[2] == 100.0
