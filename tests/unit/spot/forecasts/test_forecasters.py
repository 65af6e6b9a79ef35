"""What forecasters say, and that they see no more than the past."""

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.spot import SpotMarket
from auctune.spot.forecasts import (
    Forecast,
    PerfectForecaster,
    SeasonalNaive,
    check_forecast,
    make_forecasts,
    point_forecast,
)

MARKET = SpotMarket(np.linspace(0.1, 1.2, 12), np.arange(12))


class Recorder:
    """Remembers the pasts it was shown."""

    def __init__(self) -> None:
        self.pasts: list[SpotMarket] = []

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        self.pasts.append(past)
        return point_forecast(np.zeros(num_slots), np.zeros(num_slots, dtype=np.int64))


def test_forecasters_see_the_market_up_to_the_present_slot_and_no_further() -> None:
    recorder = Recorder()
    table = make_forecasts(recorder, MARKET, 4, 3, 5)
    assert [past.num_slots for past in recorder.pasts] == [5, 6, 7]
    assert recorder.pasts[0].available.tolist() == [0, 1, 2, 3, 4]
    assert table.price.shape == (3, 5)
    assert table.at(2).num_slots == 5


def test_a_job_that_passes_the_market_s_end_is_refused() -> None:
    with pytest.raises(InputError, match=r"^market"):
        make_forecasts(Recorder(), MARKET, 10, 3, 1)


def test_perfect_foresight_is_the_truth_in_every_quantile() -> None:
    table = make_forecasts(PerfectForecaster(MARKET), MARKET, 2, 3, 4)
    for slot in range(3):
        coming = slice(2 + slot + 1, 2 + slot + 5)
        forecast = table.at(slot)
        assert forecast.price.tolist() == MARKET.price[coming].tolist()
        assert forecast.available.tolist() == MARKET.available[coming].tolist()
        assert np.array_equal(forecast.available_quantiles.T, [forecast.available] * 5)
        assert np.array_equal(forecast.price_quantiles.T, [forecast.price] * 5)


def test_perfect_foresight_beyond_the_end_goes_on_with_the_last_slot() -> None:
    forecast = PerfectForecaster(MARKET).forecast(MARKET.until(10), 3)
    assert forecast.available.tolist() == [11, 11, 11]


def test_seasonal_naive_says_what_was_a_season_ago() -> None:
    forecast = SeasonalNaive(4).forecast(MARKET.until(9), 6)
    assert forecast.available.tolist() == [6, 7, 8, 9, 6, 7]
    # It was always 4 too low.
    assert forecast.available_quantiles[0].tolist() == [10] * 5


def test_seasonal_naive_counts_stay_within_their_cap() -> None:
    assert SeasonalNaive(4, cap=9).forecast(MARKET.until(9), 4).available_quantiles.max() == 9


def test_with_less_than_a_season_seasonal_naive_says_the_last_slot() -> None:
    forecast = SeasonalNaive(48).forecast(MARKET.until(3), 2)
    assert forecast.available.tolist() == [3, 3]
    alone = SeasonalNaive(48).forecast(MARKET.until(0), 2)
    assert alone.price_quantiles.tolist() == [[0.1] * 5] * 2


def test_a_forecast_whose_parts_differ_in_length_is_refused() -> None:
    with pytest.raises(InputError, match=r"^forecast"):
        point_forecast(np.zeros(2), np.zeros(3, dtype=np.int64))


def test_a_missing_or_short_forecast_is_refused() -> None:
    with pytest.raises(InputError, match="none is given; expected one of 2 slots"):
        check_forecast(None, 2)
    short = point_forecast(np.zeros(1), np.zeros(1, dtype=np.int64))
    with pytest.raises(InputError, match="1 slots ahead"):
        check_forecast(short, 2)
    assert check_forecast(short, 1) is short


def test_wrong_parameters_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"^season"):
        SeasonalNaive(0)
    with pytest.raises(InputError, match=r"^cap"):
        SeasonalNaive(1, -1)
