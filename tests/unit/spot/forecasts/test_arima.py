"""ARIMA forecasts: what they may say, that they learn, and that they see only the past."""

import sys
import warnings

import numpy as np
import pytest
from statsforecast.models import AutoARIMA

from auctune.domain import InputError
from auctune.spot import SpotMarket
from auctune.spot.forecasts import Arima, SeasonalNaive

SMALL = {"least": 40, "refit": 20, "memory": 100}


def market_of(count: np.ndarray, price: np.ndarray) -> SpotMarket:
    return SpotMarket(np.maximum(price, 0.0), np.clip(np.round(count), 0, 16).astype(np.int64))


def swinging(num_slots: int, seed: int = 5) -> SpotMarket:
    """Counts that jump between none and all, prices that wander near zero."""
    random = np.random.default_rng(seed)
    up = np.cumsum(random.random(num_slots) < 0.15) % 2
    wandering = np.abs(np.cumsum(random.normal(0, 0.02, num_slots)))
    return market_of(16.0 * up + random.normal(0, 1, num_slots), wandering)


@pytest.mark.slow
@pytest.mark.parametrize("seen", [41, 75, 100])
def test_forecasts_keep_to_what_can_be(seen: int) -> None:
    forecast = Arima(cap=16, **SMALL).forecast(swinging(seen), 9)
    assert forecast.num_slots == 9
    assert np.isfinite(forecast.price).all()
    assert (forecast.price >= 0).all()
    assert (forecast.price_quantiles >= 0).all()
    for counts in (forecast.available, forecast.available_quantiles):
        assert counts.dtype == np.int64
        assert counts.min() >= 0
        assert counts.max() <= 16
    assert (np.diff(forecast.price_quantiles, axis=1) >= 0).all()
    assert (np.diff(forecast.available_quantiles, axis=1) >= 0).all()


def test_a_mean_reverting_price_is_forecast_as_its_law_says() -> None:
    random = np.random.default_rng(2)
    price = np.empty(400)
    price[0] = 0.5
    for t in range(1, 400):
        price[t] = 0.5 + 0.8 * (price[t - 1] - 0.5) + random.normal(0, 0.02)
    market = market_of(np.full(400, 8.0), price)
    forecast = Arima(cap=16, memory=400).forecast(market, 6)
    law = 0.5 + 0.8 ** np.arange(1, 7) * (price[-1] - 0.5)
    assert forecast.price == pytest.approx(law, abs=0.012)
    # The 80% interval one slot ahead is 2 * 1.2816 standard deviations of the noise.
    width = forecast.price_quantiles[0, -1] - forecast.price_quantiles[0, 0]
    assert width == pytest.approx(2 * 1.2816 * 0.02, rel=0.12)


@pytest.mark.slow
def test_quantiles_cover_as_often_as_they_say() -> None:
    random = np.random.default_rng(3)
    price = np.empty(600)
    price[0] = 0.6
    for t in range(1, 600):
        price[t] = 0.6 + 0.7 * (price[t - 1] - 0.6) + random.normal(0, 0.03)
    market = market_of(np.full(600, 8.0), price)
    arima = Arima(cap=16, least=100, refit=250, memory=250)
    below = np.array(
        [
            price[now] <= arima.forecast(market.until(now - 1), 1).price_quantiles[0]
            for now in range(250, 600)
        ]
    )
    assert below.mean(axis=0) == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9], abs=0.08)


def test_what_never_changed_is_forecast_not_to() -> None:
    market = market_of(np.full(60, 7.0), np.full(60, 0.3))
    forecast = Arima(cap=16, **SMALL).forecast(market, 3)
    assert forecast.price.tolist() == [0.3] * 3
    assert forecast.available_quantiles.tolist() == [[7] * 5] * 3


def test_with_too_little_past_the_last_slot_goes_on() -> None:
    market = swinging(39)
    forecast = Arima(cap=16, **SMALL).forecast(market, 4)
    naive = SeasonalNaive(1, 16).forecast(market, 4)
    assert forecast.price.tolist() == [market.price[-1]] * 4
    assert forecast.available_quantiles.tolist() == naive.available_quantiles.tolist()


@pytest.mark.slow
def test_a_forecast_depends_on_the_past_alone_and_not_on_forecasts_made_before() -> None:
    market = swinging(140)
    worn = Arima(cap=16, **SMALL)
    for slot in range(50, 139, 11):
        worn.forecast(market.until(slot), 3)
    fresh = Arima(cap=16, **SMALL).forecast(market.until(130), 3)
    again = worn.forecast(market.until(130), 3)
    assert again.price_quantiles.tolist() == fresh.price_quantiles.tolist()
    assert again.available_quantiles.tolist() == fresh.available_quantiles.tolist()
    assert worn.description == Arima(cap=16, **SMALL).description


@pytest.mark.slow
def test_models_are_fitted_once_in_so_many_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[int] = []
    fit = AutoARIMA.fit

    def counted(model: AutoARIMA, y: np.ndarray) -> object:
        fits.append(len(y))
        return fit(model, y)

    monkeypatch.setattr(AutoARIMA, "fit", counted)
    market, arima = swinging(100), Arima(cap=16, **SMALL)
    for slot in range(58, 100):
        arima.forecast(market.until(slot), 2)
    # Of price and count, on the first 40, 60, 80 and 100 slots.
    assert sorted(fits) == [40, 40, 60, 60, 80, 80, 100, 100]


def test_what_lies_before_the_memory_is_forgotten() -> None:
    market = swinging(139)
    price = market.price.copy()
    price[:20] += 0.5
    before = Arima(cap=16, **SMALL).forecast(market, 3)
    # The last fit was after 120 slots, on 100 of them.
    after = Arima(cap=16, **SMALL).forecast(SpotMarket(price, market.available), 3)
    assert after.price_quantiles.tolist() == before.price_quantiles.tolist()


def test_a_falling_price_is_not_forecast_below_zero() -> None:
    random = np.random.default_rng(1)
    price = np.linspace(0.8, 0.01, 80) + random.normal(0, 0.003, 80)
    forecast = Arima(cap=16, **SMALL).forecast(market_of(np.full(80, 8.0), price), 12)
    assert forecast.price[-1] == 0
    assert forecast.price_quantiles.min() == 0


def test_between_two_fits_what_was_seen_since_is_heard() -> None:
    market = swinging(100)
    arima = Arima(cap=16, **SMALL)
    price = market.price.copy()
    price[88:91] += 0.4
    moved = SpotMarket(price, market.available)
    before = arima.forecast(market.until(90), 1).price[0]
    after = arima.forecast(moved.until(90), 1).price[0]
    assert after > before + 0.2


@pytest.mark.slow
def test_fits_warn_nobody() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for seed in range(4):
            Arima(cap=16, **SMALL).forecast(swinging(80, seed), 2)
    assert [str(warning.message) for warning in heard] == []


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "statsforecast.models", None)
    with pytest.raises(
        InputError, match=r"ARIMA needs statsforecast; expected pip install .statsforecast>="
    ):
        Arima(cap=16, **SMALL).forecast(swinging(60), 2)


def test_a_price_that_had_not_changed_by_the_last_fit_holds_where_it_went() -> None:
    price = np.full(75, 0.3)
    price[65:] = 0.5
    market = market_of(np.full(75, 8.0), price)
    forecast = Arima(cap=16, **SMALL).forecast(market, 3)
    assert forecast.price.tolist() == [0.5] * 3


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cap": -1}, "cap"),
        ({"season": 0}, "season"),
        ({"refit": 0}, "refit"),
        ({"least": 11}, "least"),
        ({"season": 48}, "least"),
        ({"memory": 47}, "memory"),
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, int], field: str) -> None:
    with pytest.raises(InputError, match=f"^{field}:"):
        Arima(**wrong)
