"""Recorded markets: what is observed of one and what a job runs on is the same market."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.engine.spot.job_config import SpotJobSpec, SpotStrategy, estimate, max_deadline
from auctune.engine.spot.traces import MAX_HISTORY, LoopedTrace, MarketTrace, read_looped_trace
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
    assert TRACE.min_available(0.1, 0.4) == 4
    assert TRACE.min_available(0.1, 1.2) == 1
    assert TRACE.min_available(1.0, 2.4) == 3
    assert TRACE.min_available(2.6, 2.6) == 0


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
    assert trace.min_available(first, last) == min(trace.at(now)[1] for now in moments)


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


SLOT = 600.0


def recorded(tmp_path: Path, start: int | None = 3, slots: int = 7) -> LoopedTrace:
    """Two lines a slot; within each slot instances go."""
    lines = ["t_s,available,price"]
    for half in range(2 * slots):
        available = 5 + half // 2 - half % 2
        lines.append(f"{half * SLOT / 2:g},{available},{0.5 + half // 2 / 10:g}")
    file = tmp_path / "market.csv"
    file.write_text("\n".join(lines) + "\n")
    return read_looped_trace(file, None, None, on_demand_price=2.0, slot_seconds=SLOT, start=start)


@pytest.mark.parametrize("first", [0, 2, 4, 5, 11])
def test_a_trace_is_the_market_that_is_seen_slot_by_slot_over_the_end_and_on(
    tmp_path: Path, first: int
) -> None:
    market = recorded(tmp_path)
    trace = market.trace(first, 9)
    times = np.array(trace["times"])
    assert (times[0], bool(np.all(np.diff(times) > 0))) == (0.0, True)
    for slot in range(9):
        within = (times >= slot) & (times < slot + 1)
        seen = market.history(first + slot)
        price, available = seen.price[-1], seen.available[-1]
        assert min(np.array(trace["available"])[within]) == available
        assert set(np.array(trace["price"])[within]) == {price}
        # What jobs choose by, and operators see, is the market as the slot begins: never less.
        as_it_begins = np.array(trace["available"])[within][0]
        assert market.quote(first + slot) == (price, as_it_begins)
        assert as_it_begins >= available


def test_nothing_is_seen_that_is_yet_to_come(tmp_path: Path) -> None:
    market = recorded(tmp_path, start=2)
    seen = market.history(0)
    assert seen.num_slots == 3
    assert np.array_equal(seen.price, market.market.price[:3])
    later = market.history(10)
    assert later.num_slots == 13
    assert np.array_equal(later.price[7:], market.market.price[:6])
    assert market.history(10 * MAX_HISTORY).num_slots == MAX_HISTORY


def test_it_begins_a_third_into_the_record_where_nothing_is_said(tmp_path: Path) -> None:
    assert recorded(tmp_path, None).start == 2
    with pytest.raises(InputError, match=r"start: 7; expected a slot of the market, 0 to 6"):
        recorded(tmp_path, 7)
    assert recorded(tmp_path, 1).digest != recorded(tmp_path, 2).digest


def test_as_long_as_the_past_tells_of_it_a_job_has_an_estimate(tmp_path: Path) -> None:
    seen = recorded(tmp_path, 0, slots=20).history(19)
    latest = max_deadline(seen)
    assert latest == 12
    strategy = SpotStrategy("msu", "seasonal")
    found = estimate(SpotJobSpec(9.0, latest, 1.5, 20.0, 1, 4, 0.9, 0.95).job(), strategy, seen)
    assert 0 < found.cost <= found.cost_p90
    assert 0 <= found.risk <= 1
    with pytest.raises(InputError):
        estimate(SpotJobSpec(9.0, latest + 2, 1.5, 20.0, 1, 4, 0.9, 0.95).job(), strategy, seen)


def test_who_knows_the_future_does_not_forecast_here() -> None:
    with pytest.raises(InputError, match="knows the future"):
        SpotStrategy("msu", "perfect")
