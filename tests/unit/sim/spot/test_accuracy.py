"""Forecast accuracy."""

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.sim.spot.accuracy import measure_accuracy
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
