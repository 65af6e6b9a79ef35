import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.sim.spot.trace import SpotTrace, slot_counts, slot_prices, whole_slots


def trace_of(counts: list[int], prices: list[float], step: float, first: float = 0.0) -> SpotTrace:
    times = first + step * np.arange(len(counts), dtype=np.float64)
    return SpotTrace("m.csv", times, np.array(counts), np.array(prices))


def test_a_slots_price_is_the_mean_and_its_count_the_least() -> None:
    trace = trace_of([3, 1, 2, 5, 4, 6, 9], [0.2, 0.4, 0.6, 0.1, 0.1, 0.4, 0.9], 600)
    assert whole_slots(trace, 0, 1800) == 2
    assert slot_prices(trace, 0, 1800, 2) == pytest.approx([0.4, 0.2])
    assert slot_counts(trace, 0, 1800, 2).tolist() == [1, 4]


def test_lines_longer_than_slots_hold_in_each_of_them() -> None:
    trace = trace_of([3, 1], [0.2, 0.4], 3600)
    assert slot_prices(trace, 0, 1800, 4).tolist() == [0.2, 0.2, 0.4, 0.4]
    assert slot_counts(trace, 0, 1800, 4).tolist() == [3, 3, 1, 1]


def test_slots_that_cut_lines_weigh_them_by_time() -> None:
    trace = trace_of([3, 1, 2], [0.0, 0.9, 0.3], 600)
    assert whole_slots(trace, 0, 900) == 2
    assert slot_prices(trace, 0, 900, 2) == pytest.approx([0.3, 0.5])
    assert slot_counts(trace, 0, 900, 2).tolist() == [1, 1]


def test_slots_begin_where_they_are_told_to() -> None:
    trace = trace_of([3, 1, 2, 7], [0.1, 0.2, 0.3, 0.4], 600, first=1200)
    assert whole_slots(trace, 1800, 600) == 3
    assert slot_counts(trace, 1800, 600, 3).tolist() == [1, 2, 7]


@pytest.mark.parametrize("start_s", [0.0, 3000.0, 4000.0])
def test_a_start_outside_the_trace_is_refused(start_s: float) -> None:
    trace = trace_of([3, 1, 2], [0.1, 0.2, 0.3], 600, first=1200)
    with pytest.raises(InputError, match=r"covers 1200 to 3000 s"):
        whole_slots(trace, start_s, 600)


def test_more_slots_than_there_are_are_refused() -> None:
    trace = trace_of([3, 1, 2], [0.1, 0.2, 0.3], 600)
    with pytest.raises(InputError, match="ends at 1800 s; expected 2 slots"):
        slot_prices(trace, 0, 1200, 2)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), min_size=2, max_size=12),
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(0, 5),
)
def test_slots_agree_with_a_record_of_every_second(
    lines: list[tuple[int, int]], step: int, slot: int, skipped: int
) -> None:
    counts = np.repeat([count for count, _ in lines], step)[skipped:]
    prices = np.repeat([price for _, price in lines], step)[skipped:]
    trace = trace_of([c for c, _ in lines], [float(p) for _, p in lines], float(step))
    num_slots = len(counts) // slot
    if not num_slots:
        with pytest.raises(InputError):
            whole_slots(trace, float(skipped), float(slot))
        return
    assert whole_slots(trace, float(skipped), float(slot)) == num_slots
    by_slot = counts[: num_slots * slot].reshape(num_slots, slot)
    made = slot_counts(trace, float(skipped), float(slot), num_slots)
    assert made.tolist() == by_slot.min(axis=1).tolist()
    means = prices[: num_slots * slot].reshape(num_slots, slot).mean(axis=1)
    assert slot_prices(trace, float(skipped), float(slot), num_slots) == pytest.approx(means)


@pytest.mark.parametrize(("step", "seconds"), [(1e15, 1800.0), (600.0, 5e-324)])
def test_more_slots_than_memory_has_room_for_are_refused(step: float, seconds: float) -> None:
    trace = trace_of([3, 1], [0.1, 0.2], step)
    with pytest.raises(InputError, match=r"m\.csv: covers .* at most 10000000 of them"):
        whole_slots(trace, 0, seconds)
