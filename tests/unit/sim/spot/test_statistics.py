"""Forecast accuracy, and goodness of fit."""

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.sim.spot.statistics import (
    compare,
    count_figures,
    measure_accuracy,
    price_figures,
    run_lengths,
)
from auctune.spot import SpotMarket
from auctune.spot.forecasts import (
    ForecastTable,
    PerfectForecaster,
    SeasonalNaive,
    make_forecasts,
)
from support.spot_markets import random_market


def test_errors_grow_by_the_slope_where_the_last_value_is_held() -> None:
    market = SpotMarket(0.1 + 0.02 * np.arange(30.0), 3 * np.arange(30))
    table = make_forecasts(SeasonalNaive(1), market, 0, 30, 4)
    accuracy = measure_accuracy([table], [market], skip=5)
    assert accuracy.available == pytest.approx([3, 6, 9, 12])
    assert accuracy.price == pytest.approx([0.02, 0.04, 0.06, 0.08])


def test_perfect_forecasts_have_no_error() -> None:
    market = random_market(30, seed=2)
    table = make_forecasts(PerfectForecaster(market), market, 0, 30, 3)
    accuracy = measure_accuracy([table], [market], skip=0)
    for errors in (accuracy.available, accuracy.price, accuracy.price_pinball):
        assert errors.tolist() == [0, 0, 0]


def test_pinball_loss_by_hand() -> None:
    levels = np.array([0.1, 0.9])
    price = np.ones((3, 1))
    table = ForecastTable(
        price,
        np.zeros((3, 1), dtype=np.int64),
        levels,
        np.tile([0.5, 2.0], (3, 1, 1)),
        np.tile([0, 4], (3, 1, 1)),
    )
    market = SpotMarket(np.full(3, 1.5), np.full(3, 6))
    accuracy = measure_accuracy([table], [market], skip=0)
    assert accuracy.price[0] == pytest.approx(0.5)
    # 2 * mean(0.1 * 1.0, (0.9 - 1) * (1.5 - 2.0)), and 2 * mean(0.1 * 6, 0.9 * 2).
    assert accuracy.price_pinball[0] == pytest.approx(0.15)
    assert accuracy.available_pinball[0] == pytest.approx(2.4)


def test_each_market_has_the_same_weight() -> None:
    rising = SpotMarket(np.full(40, 0.3), np.arange(40))
    level = SpotMarket(np.full(10, 0.3), np.full(10, 5))
    tables = [make_forecasts(SeasonalNaive(1), m, 0, m.num_slots, 1) for m in (rising, level)]
    assert measure_accuracy(tables, [rising, level], skip=2).available == pytest.approx([0.5])


def test_a_market_too_short_to_tell_is_refused() -> None:
    market = random_market(10, seed=2)
    table = make_forecasts(SeasonalNaive(1), market, 0, 10, 3)
    with pytest.raises(InputError, match="10 slots; expected more than 11"):
        measure_accuracy([table], [market], skip=8)


def test_runs_are_counted_to_both_ends() -> None:
    held = np.array([1, 1, 0, 1, 0, 0, 1, 1, 1], dtype=bool)
    assert run_lengths(held).tolist() == [2, 1, 3]
    assert run_lengths(~held).tolist() == [1, 2]
    assert run_lengths(np.zeros(4, dtype=bool)).tolist() == []


def test_figures_of_counts_by_hand() -> None:
    counts = np.tile(np.repeat([0, 16, 0, 8], [90, 50, 10, 50]), 2)
    figures = count_figures(counts, 16)
    assert figures["mean"] == 6
    assert figures["variance"] == pytest.approx(0.25 * 256 + 0.25 * 64 - 36)
    assert figures["share of none"] == 0.5
    assert figures["share of all"] == 0.25
    assert figures["runs of none"] == 4
    assert figures["mean run of none"] == 50
    assert figures["longest run of none"] == 90
    assert figures["mean run of some"] == 50


def test_figures_of_prices_by_hand() -> None:
    price = np.tile(np.repeat([0.3, 0.4, 0.5], [24, 12, 12]), 10)
    figures = price_figures(price)
    assert (figures["least"], figures["most"]) == (0.3, 0.5)
    assert figures["mean"] == pytest.approx(0.375)
    # Three changes a day, but none after the last day.
    assert figures["changes a day"] == pytest.approx(2.9)
    assert figures["correlation after a day"] == pytest.approx(1.0)


def test_figures_of_what_never_changes_are_numbers() -> None:
    figures = count_figures(np.zeros(200, dtype=np.int64), 16) | price_figures(np.full(200, 0.3))
    assert all(np.isfinite(value) for value in figures.values())


def test_a_record_is_within_the_middle_of_what_is_made_up_or_not() -> None:
    rows = compare({"a": 50.0, "b": 5.0}, lambda seed: {"a": seed, "b": seed}, runs=101)
    assert [(row.figure, row.mean, row.low, row.high) for row in rows] == [
        ("a", 50, 10, 90),
        ("b", 50, 10, 90),
    ]
    assert [row.within for row in rows] == [True, False]
