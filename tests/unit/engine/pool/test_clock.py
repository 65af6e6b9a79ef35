"""Clocks of a pool, by one that is turned by hand."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.engine.pool.clock import MIN_SPAN, Clock, Quantum, WallClock


@dataclass
class Hand:
    """A clock that goes on when it is told to."""

    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


def wall(hand: Hand) -> WallClock:
    clock = WallClock(2.0, now=hand, wait=hand.wait)
    clock.start(0.0)
    return clock


def test_a_unit_ends_when_the_clock_says_so_however_long_the_one_before_took() -> None:
    hand = Hand()
    clock = wall(hand)
    assert clock.next_quantum(0) == Quantum(0, 1.0)
    hand.wait(2.5)
    late = clock.next_quantum(1)
    assert late.time == 1
    assert late.span == pytest.approx(0.75)
    hand.wait(0.5)
    early = clock.next_quantum(2)
    # Trained through half a unit early: the next one begins now.
    assert early.time == 2
    assert early.span == pytest.approx(1.5)
    assert clock.remaining_seconds(early) == pytest.approx(3.0)
    hand.wait(3.5)
    assert clock.remaining_seconds(early) == pytest.approx(-0.5)


def test_units_that_went_by_are_left_out_and_a_rest_of_one_too() -> None:
    hand = Hand()
    clock = wall(hand)
    hand.wait(2.0 * (3 + 1 - MIN_SPAN / 2))
    unit = clock.next_quantum(1)
    assert unit.time == 4
    assert unit.span == pytest.approx(1 + MIN_SPAN / 2)


def test_nobody_waits_longer_than_for_the_unit_before() -> None:
    hand = Hand()
    clock = wall(hand)
    unit = clock.next_quantum(5)
    assert unit.time == 5
    assert unit.span == pytest.approx(2.0)
    assert clock.moment() == pytest.approx(4.0)


def test_the_clock_stands_still_while_a_run_is_not_there() -> None:
    hand = Hand()
    clock = wall(hand)
    hand.wait(1000.0)
    clock.start(7.25)
    assert clock.moment() == pytest.approx(7.25)


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0.5, 50)), min_size=1, max_size=6),
    st.floats(0.2, 2.0),
)
def test_what_is_trained_fits_into_the_unit_in_proportion(
    threads: list[tuple[float, float]], span: float
) -> None:
    due, rates = (np.array(column) for column in zip(*threads, strict=True))
    room = wall(Hand()).fit(Quantum(0, span), due, rates)
    assert float((room / rates).sum()) <= span * (1 + 1e-9)
    assert np.allclose(room * due.sum(), due * room.sum())
    assert (room <= due).all()
    assert np.array_equal(Clock().fit(Quantum(0, span), due, rates), due)


def test_rates_follow_what_was_measured_and_rest_where_nothing_was() -> None:
    clock = wall(Hand())
    rates = np.array([10.0, 10.0, 10.0])
    for _ in range(40):
        seen = np.array([20.0, 1.0, 0.0]), np.array([1.0, 0.1, 0.0])
        rates = clock.update_rates(rates, *seen, np.zeros(3, dtype=np.bool_))
    assert rates[0] == pytest.approx(40.0, rel=1e-4)
    assert 10.0 < rates[1] < 20.0
    assert rates[2] == 10.0
    before = np.array([3.0])
    new = np.array([True])
    assert Clock().update_rates(before, np.array([9.0]), np.array([1.0]), new) is before


def test_the_rate_of_a_new_thread_is_what_its_first_batches_show() -> None:
    rates, new = np.array([100.0, 100.0, 100.0]), np.ones(3, dtype=np.bool_)
    found = wall(Hand()).update_rates(
        rates, np.array([5.0, 1.0, 0.0]), np.array([1.0, 0.2, 0.0]), new
    )
    assert found[0] == 10.0
    assert 10.0 < found[1] < 100.0
    assert found[2] == 100.0


def test_quanta_are_slots_of_the_machines_clock_however_long_the_pool_was_not_running() -> None:
    now = [1000.0 + 12.5 * 3]
    clock = WallClock(12.5, 1000.0, now=lambda: now[0])
    assert clock.moment() == 3.0
    assert clock.next_quantum(1) == Quantum(3, 1.0)
    now[0] += 125.0
    assert clock.next_quantum(5).time == 13


def test_a_pool_that_is_stopped_does_not_wait_for_a_quantum_that_is_far_away() -> None:
    stop = threading.Event()
    clock = WallClock(10.0, 0.0, stop, now=lambda: 25.0)
    stop.set()
    assert clock.next_quantum(100).time == 100
