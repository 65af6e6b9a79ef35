"""A record of a market, by the moment."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.run.spot.trace import MarketTrace
from auctune.spot import SpotMarket

TRACE = MarketTrace(
    np.array([0.0, 0.5, 1.0, 2.5]), np.array([0.3, 0.4, 0.5, 0.2]), np.array([4, 1, 3, 0])
)


@pytest.mark.parametrize(
    ("now", "price", "available"),
    [(0.0, 0.3, 4), (0.49, 0.3, 4), (0.5, 0.4, 1), (1.7, 0.5, 3), (2.5, 0.2, 0), (9.0, 0.2, 0)],
)
def test_an_entry_holds_until_the_next(now: float, price: float, available: int) -> None:
    assert TRACE.at(now) == (price, available)


def test_a_fall_between_two_looks_is_seen() -> None:
    assert TRACE.least_available(0.1, 0.4) == 4
    assert TRACE.least_available(0.1, 1.2) == 1
    assert TRACE.least_available(1.0, 2.4) == 3
    assert TRACE.least_available(2.6, 2.6) == 0


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.floats(0, 12, allow_nan=False),
    st.floats(0, 12, allow_nan=False),
)
def test_the_least_is_that_of_all_moments(counts: list[int], one: float, other: float) -> None:
    first, last = sorted((one, other))
    trace = MarketTrace(
        np.arange(len(counts), dtype=np.float64), np.ones(len(counts)), np.array(counts)
    )
    moments = [first, last, *(float(n) for n in range(13) if first <= n <= last)]
    assert trace.least_available(first, last) == min(trace.at(now)[1] for now in moments)


def test_seconds_become_slots_from_the_jobs_start_on() -> None:
    trace = MarketTrace.of_seconds(
        [0, 600, 1200, 1800, 2400],
        np.array([0.1, 0.2, 0.3, 0.4, 0.5]),
        np.array([1, 2, 3, 4, 5]),
        slot_seconds=1200,
        start=900,
    )
    assert trace.times.tolist() == [0.0, 0.25, 0.75, 1.25]
    assert trace.at(0.0) == (0.2, 2)
    assert trace.num_slots == 2


def test_a_market_of_slots_changes_between_slots_alone() -> None:
    market = SpotMarket(np.array([0.3, 0.4]), np.array([2, 0]), 1.5)
    trace = MarketTrace.of_slots(market)
    assert trace.num_slots == 2
    assert (trace.at(0.99), trace.at(1.0)) == ((0.3, 2), (0.4, 0))
    assert trace.on_demand_price == 1.5


@pytest.mark.parametrize(
    ("times", "price", "available", "place"),
    [
        ([0.0, 0.0], [1.0, 1.0], [1, 1], "times"),
        ([0.5, 1.0], [1.0, 1.0], [1, 1], "times"),
        ([0.0], [1.0, 1.0], [1, 1], "times"),
        ([], [], [], "times"),
        ([0.0, 1.0], [1.0, -1.0], [1, 1], "price"),
        ([0.0, 1.0], [1.0, 1.0], [1, -1], "available"),
    ],
)
def test_what_is_no_record_is_refused(
    times: list[float], price: list[float], available: list[int], place: str
) -> None:
    with pytest.raises(InputError, match=place):
        MarketTrace(np.array(times), np.array(price), np.array(available))


def test_a_job_that_begins_before_the_record_is_refused() -> None:
    with pytest.raises(InputError, match="start"):
        MarketTrace.of_seconds(
            [600, 1200], np.ones(2), np.ones(2, dtype=int), slot_seconds=600, start=0
        )


def test_a_digest_tells_traces_apart() -> None:
    other = MarketTrace(TRACE.times, TRACE.price, np.array([4, 1, 3, 1]))
    again = MarketTrace(TRACE.times, TRACE.price, TRACE.available)
    assert TRACE.digest == again.digest != other.digest
