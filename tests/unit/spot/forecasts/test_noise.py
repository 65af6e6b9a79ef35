"""The laws of noise, and quantiles that know them."""

import numpy as np
import pytest
from scipy import stats

from auctune.domain import InputError
from auctune.spot import SpotMarket
from auctune.spot.forecasts import (
    Fixed,
    HeavyTailedNoise,
    NoisyForecaster,
    PosteriorForecaster,
    Proportional,
    UniformNoise,
)
from auctune.spot.forecasts.noise import Magnitude, Noise


def wandering_market(num_slots: int = 600) -> SpotMarket:
    """Price and count that drift about their means."""
    random = np.random.default_rng(5)
    price, count = np.empty(num_slots), np.empty(num_slots)
    p, a = 0.5, 8.0
    for slot in range(num_slots):
        p += 0.1 * (0.5 - p) + 0.03 * random.normal()
        a += 0.1 * (8 - a) + 1.2 * random.normal()
        price[slot], count[slot] = max(p, 0.0), np.clip(np.round(a), 0, 16)
    return SpotMarket(price, count.astype(np.int64))


MARKET = wandering_market()


def test_heavy_tails_are_those_of_student_with_two_degrees_of_freedom() -> None:
    noise = HeavyTailedNoise(clip=4.0)
    inside = np.linspace(-3.9, 3.9, 40)
    assert noise.below(inside) == pytest.approx(stats.t(2).cdf(inside))
    assert noise.below(np.array([-np.inf, -4.01, 4.0, np.inf])).tolist() == [0, 0, 1, 1]
    drawn = noise.draw(np.random.default_rng(0), 4000)
    assert np.abs(drawn).max() == 4.0
    kept = drawn[np.abs(drawn) < 4.0]
    within = stats.t(2).cdf([-4.0, 4.0])

    def truncated(x: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> object:
        return (stats.t(2).cdf(x) - within[0]) / (within[1] - within[0])

    assert stats.kstest(kept, truncated).pvalue > 0.01


def test_uniform_noise_fills_its_interval() -> None:
    drawn = UniformNoise().draw(np.random.default_rng(0), 4000)
    assert stats.kstest(drawn, stats.uniform(-1, 2).cdf).pvalue > 0.01
    assert UniformNoise().below(np.array([-2, -0.5, 0.0, 2])).tolist() == [0, 0.25, 0.5, 1]


@pytest.mark.parametrize("noise", [UniformNoise(), HeavyTailedNoise()])
@pytest.mark.parametrize("magnitude", [Proportional(0.0), Fixed(0.0)])
def test_no_error_is_the_truth(noise: Noise, magnitude: Magnitude) -> None:
    forecast = NoisyForecaster(MARKET, magnitude, noise, 16).forecast(MARKET.until(99), 10)
    assert forecast.price.tolist() == MARKET.price[100:110].tolist()
    assert forecast.available.tolist() == MARKET.available[100:110].tolist()


def test_errors_keep_the_size_of_their_kind() -> None:
    proportional = NoisyForecaster(MARKET, Proportional(0.2), UniformNoise(), 16)
    fixed = NoisyForecaster(MARKET, Fixed(0.2), UniformNoise(), 16)
    for slot in range(50, 90):
        truth = MARKET.price[slot + 1 : slot + 6]
        past = MARKET.until(slot)
        assert (np.abs(proportional.forecast(past, 5).price - truth) <= 0.2 * truth + 1e-12).all()
        error = np.abs(fixed.forecast(past, 5).price - truth)
        assert (error <= 0.2 * MARKET.price.mean() + 1e-12).all()
    assert error.max() > 0


def test_noisy_counts_are_whole_and_within_the_cap_and_prices_not_below_zero() -> None:
    forecaster = NoisyForecaster(MARKET, Fixed(5.0), HeavyTailedNoise(), 9)
    table = [forecaster.forecast(MARKET.until(slot), 9) for slot in range(100)]
    counts = np.array([forecast.available for forecast in table])
    assert counts.dtype == np.int64
    assert (counts.min(), counts.max()) == (0, 9)
    assert min(forecast.price.min() for forecast in table) == 0.0


def test_noise_depends_on_the_seed_and_the_slot_and_not_on_the_horizon() -> None:
    def price(seed: int, slot: int, horizon: int) -> list[float]:
        forecaster = NoisyForecaster(MARKET, Fixed(0.3), HeavyTailedNoise(), 16, seed)
        return [float(x) for x in forecaster.forecast(MARKET.until(slot), horizon).price]

    assert price(1, 50, 9)[:3] == price(1, 50, 3)
    assert price(1, 50, 3) != price(2, 50, 3)
    # Of the same slot, a later forecast is another one.
    assert price(1, 50, 3)[1] != price(1, 51, 3)[0]


@pytest.mark.parametrize("noise", [UniformNoise(), HeavyTailedNoise()])
@pytest.mark.parametrize("magnitude", [Proportional(0.5), Fixed(0.5)])
def test_quantiles_hold_as_often_as_they_say(noise: Noise, magnitude: Magnitude) -> None:
    forecaster = PosteriorForecaster(NoisyForecaster(MARKET, magnitude, noise, 16))
    below = np.zeros((2, 5))
    slots = range(200, 590)
    for slot in slots:
        forecast = forecaster.forecast(MARKET.until(slot), 3)
        below[0] += MARKET.price[slot + 3] <= forecast.price_quantiles[2]
        below[1] += MARKET.available[slot + 3] <= forecast.available_quantiles[2]
    price, count = below / len(slots)
    assert price == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9], abs=0.08)
    # Counts are whole, so that more lies at or below a quantile than its level.
    assert (count >= np.array([0.1, 0.3, 0.5, 0.7, 0.9]) - 0.05).all()
    assert (count <= np.array([0.1, 0.3, 0.5, 0.7, 0.9]) + 0.25).all()


def test_quantiles_are_nearer_to_the_truth_than_the_noisy_points() -> None:
    noisy = NoisyForecaster(MARKET, Fixed(1.0), UniformNoise(), 16)
    forecaster = PosteriorForecaster(noisy)
    errors = []
    for slot in range(200, 400):
        forecast = forecaster.forecast(MARKET.until(slot), 1)
        truth = MARKET.price[slot + 1]
        errors.append((abs(forecast.price[0] - truth), abs(forecast.price_quantiles[0, 2] - truth)))
    point, median = np.mean(errors, axis=0)
    assert median < 0.3 * point


def test_a_forecast_that_nothing_explains_stands_for_itself() -> None:
    flat = SpotMarket(np.array([*[0.5] * 5, 0.9]), np.array([*[4] * 5, 9]))
    noisy = NoisyForecaster(flat, Fixed(0.0), UniformNoise(), 16)
    forecast = PosteriorForecaster(noisy).forecast(flat.until(4), 1)
    assert forecast.price_quantiles.tolist() == [[0.9] * 5]
    assert forecast.available_quantiles.tolist() == [[9] * 5]


def test_wrong_parameters_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"^error"):
        Fixed(-0.1)
    with pytest.raises(InputError, match=r"^error"):
        Proportional(-0.1)
    with pytest.raises(InputError, match=r"^clip"):
        HeavyTailedNoise(0.0)
