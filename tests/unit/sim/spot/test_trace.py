"""Traces, their slots, and markets made of them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.sim.spot.trace import (
    ON_DEMAND_V100,
    FixedPrice,
    FromFile,
    MarketRecipe,
    SpotTrace,
    read_market,
    read_trace,
    slot_counts,
    slot_prices,
    whole_slots,
)
from support.market_rows import even_rows, write_rows

GOOD = even_rows([(4, 0.5), (0, 0.25), (2, 0.75), (1, 0.5)])


def test_a_file_is_read_as_it_stands(tmp_path: Path) -> None:
    trace = read_trace(write_rows(tmp_path / "m.csv", GOOD))
    assert trace.t_s.tolist() == [0, 600, 1200, 1800]
    assert trace.recorded_available().tolist() == [4, 0, 2, 1]
    assert trace.recorded_available().dtype == np.int64
    assert trace.recorded_price().tolist() == [0.5, 0.25, 0.75, 0.5]
    assert (trace.step_seconds, trace.end_s) == (600, 2400)


def test_a_column_that_is_empty_throughout_is_a_missing_series(tmp_path: Path) -> None:
    trace = read_trace(write_rows(tmp_path / "m.csv", even_rows([("", 0.5), ("", 0.25)])))
    assert trace.available is None
    with pytest.raises(InputError, match=r"m\.csv: available: is empty throughout"):
        trace.recorded_available()
    trace = read_trace(write_rows(tmp_path / "n.csv", even_rows([(3, ""), (4, "")])))
    with pytest.raises(InputError, match=r"n\.csv: price: is empty throughout; .*--fixed-price"):
        trace.recorded_price()


@pytest.mark.parametrize(
    ("row", "text", "message"),
    [
        (2, "1800,2,0.75", r"line 4: t_s: 1800 after 600 leaves a hole; expected steps of 600 s"),
        (2, "900,2,0.75", r"line 4: t_s: 900 after 600 comes early"),
        (2, "600,2,0.75", r"line 4: t_s: 600 after 600 does not rise"),
        (2, "0,2,0.75", r"line 4: t_s: 0 after 600 does not rise"),
        (1, "700,2,0.75", r"line 3: t_s: 700 after 0 leaves a hole"),
        (0, "-600,2,0.75", r"line 2: t_s: '-600'; expected seconds >= 0"),
        (1, "600,-1,0.75", r"line 3: available: '-1'; expected a whole number >= 0"),
        (1, "600,1.5,0.75", r"line 3: available: '1\.5'; expected a whole number >= 0"),
        (3, "1800,1,-0.5", r"line 5: price: '-0\.5'"),
        (3, "1800,1,cheap", r"line 5: price: 'cheap'"),
        (3, "1800,1,1e300", r"line 5: price: '1e300'; expected at most 1000000000"),
        (1, "600,1e25,0.25", r"line 3: available: '1e25'; expected at most 1000000000"),
        (3, "1800,1,nan", r"line 5: price: 'nan'"),
        (3, "1800,1,", r"line 5: price: is missing"),
        (1, "600,,0.25", r"line 3: available: is missing"),
        (1, ",2,0.25", r"line 3: t_s: is missing"),
        (1, "600,2,0.25,9", r"line 3: has 4 fields"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, row: int, text: str, message: str) -> None:
    rows = [*even_rows([(4, 0.5), (0, 0.25), (2, 0.75), (1, 0.5), (1, 0.5), (1, 0.5)])]
    rows[row] = text
    with pytest.raises(InputError, match=message):
        read_trace(write_rows(tmp_path / "m.csv", rows))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "has 0 lines of data"),
        (["0,1,0.5"], "has 1 lines of data"),
        (["0,,", "600,,"], "has neither counts nor prices"),
    ],
)
def test_a_file_that_says_nothing_is_refused(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_trace(write_rows(tmp_path / "m.csv", rows))


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("t_s,price\n0,1\n60,1\n")
    with pytest.raises(InputError, match="has no column 'available'"):
        read_trace(tmp_path / "m.csv")


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    rows = even_rows([(4, ""), (3, ""), (2, ""), (6, ""), (5, ""), (7, "")], step=900)
    return write_rows(tmp_path / "counts.csv", rows)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    rows = even_rows([("", 0.918), ("", 1.53), ("", 3.06)], step=3600)
    return write_rows(tmp_path / "prices.csv", rows)


def test_counts_and_prices_of_two_files_make_a_market_as_long_as_the_shorter(
    counts: Path, prices: Path
) -> None:
    recipe = MarketRecipe(
        available=FromFile(counts),
        price=FromFile(prices, start_s=1800),
        on_demand_price=ON_DEMAND_V100,
    )
    market = read_market(recipe)
    assert market.available.tolist() == [3, 2, 5]
    assert market.price == pytest.approx([0.3, 0.5, 0.5])
    assert (market.on_demand_price, market.slot_seconds) == (1.0, 1800.0)
    late = MarketRecipe(available=FromFile(counts), price=FromFile(prices, start_s=9000))
    assert read_market(late).num_slots == 1


def test_the_price_at_the_floor_meets_the_threshold_of_the_same_decimals(prices: Path) -> None:
    # 0.30 of the on-demand price: what binary division makes of it must not miss 0.3.
    for usd in (0.918, 0.306, 0.4284, 0.5202):
        rows = even_rows([(1, usd), (1, usd)], step=1800)
        path = write_rows(prices.with_name("floor.csv"), rows)
        recipe = MarketRecipe(available=FromFile(path), on_demand_price=ON_DEMAND_V100)
        assert read_market(recipe).price.tolist() == [round(usd / 3.06, 3)] * 2


def test_a_fixed_price_stands_beside_counts(counts: Path) -> None:
    recipe = MarketRecipe(available=FromFile(counts), price=FixedPrice(0.3))
    assert read_market(recipe).price.tolist() == [0.3, 0.3, 0.3]


def test_a_missing_series_is_never_made_up(counts: Path, prices: Path) -> None:
    with pytest.raises(InputError, match=r"counts\.csv: price: is empty throughout"):
        read_market(MarketRecipe(available=FromFile(counts)))
    with pytest.raises(InputError, match=r"prices\.csv: available: is empty throughout"):
        read_market(MarketRecipe(available=FromFile(prices)))
    with pytest.raises(InputError, match=r"counts\.csv: price: is empty throughout"):
        read_market(MarketRecipe(available=FromFile(counts), price=FromFile(counts, 900)))


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
