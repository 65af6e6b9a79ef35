"""Made-up markets have the law that their parameters say, and fits find the parameters again."""

import math

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.numerics.goodness_of_fit import autocorrelation
from auctune.sim.spot.generator import (
    CountParams,
    DailyCycle,
    MarketGenerator,
    PriceParams,
    Wave,
    fit_counts,
    fit_prices,
    generate_counts,
    generate_prices,
    latent_correlation,
    mean_square_change,
    seen_correlation,
    smoothed_correlation,
)

HOUR, DAY = 3600.0, 86_400.0
COUNTS = CountParams(16, 0.5, 0.3, (Wave(4 * HOUR, 0.6), Wave(HOUR, 0.4)))
PRICES = PriceParams(0.0, 0.5, 0.1, 2 * DAY, 0.25 * DAY, 1e6)
SLOT = 1800.0


def test_counts_have_their_shares_of_none_and_of_all() -> None:
    counts = generate_counts(COUNTS, 60_000, 1, SLOT)
    assert counts.min() == 0
    assert counts.max() == 16
    assert (counts == 0).mean() == pytest.approx(0.5, abs=0.02)
    assert (counts == 16).mean() == pytest.approx(0.3, abs=0.02)
    between = np.bincount(counts, minlength=17)[1:16]
    assert between.min() > 0.5 * between.mean()


def test_whether_there_are_any_is_correlated_as_the_gaussian_waves_say() -> None:
    present = np.asarray(generate_counts(COUNTS, 200_000, 2, SLOT) > 0, dtype=np.float64)
    lags = np.array([1, 4, 12])
    z = 0.6 * np.exp(-lags * SLOT / (4 * HOUR)) + 0.4 * np.exp(-lags * SLOT / HOUR)
    # At the median, the correlation of signs is the arc sine law.
    assert autocorrelation([present], lags) == pytest.approx(2 / math.pi * np.arcsin(z), abs=0.02)


def test_a_daily_cycle_shows_at_its_hour_and_leaves_the_shares() -> None:
    cycle = DailyCycle(amplitude=1.0, peak_seconds=6 * HOUR)
    params = CountParams(16, 0.75, 0.1, COUNTS.waves, cycle)
    counts = generate_counts(params, 48 * 800, 3, SLOT)
    assert (counts == 0).mean() == pytest.approx(0.75, abs=0.025)
    assert (counts == 16).mean() == pytest.approx(0.1, abs=0.025)
    by_hour = counts.reshape(-1, 48).mean(axis=0)
    assert abs(int(by_hour.argmax()) - 12) <= 3
    assert abs(int(by_hour.argmin()) - 36) <= 3
    assert by_hour.max() > 3 * by_hour.min()


def test_prices_have_their_mean_deviation_and_correlation() -> None:
    price = generate_prices(PRICES, 2_000_000, 4, SLOT)
    assert price.mean() == pytest.approx(0.5, abs=0.01)
    assert price.std() == pytest.approx(0.1, rel=0.05)
    lags = np.array([1, 12, 48, 96])
    # r exp(-u/r) - s exp(-u/s) over r - s, for the continuous process.
    assert autocorrelation([price], lags) == pytest.approx(
        smoothed_correlation(lags, SLOT, 2 * DAY, 0.25 * DAY), abs=0.03
    )


def test_prices_are_stationary_from_their_first_slot_on() -> None:
    first = np.array([generate_prices(PRICES, 3, seed, SLOT) for seed in range(2000)])
    assert first.std(axis=0) == pytest.approx([0.1] * 3, rel=0.06)
    together = np.corrcoef(first[:, 0], first[:, 2])[0, 1]
    expected = smoothed_correlation(np.array([2]), SLOT, 2 * DAY, 0.25 * DAY)[0]
    assert together == pytest.approx(expected, abs=0.005)


def test_prices_that_forget_within_slots_are_stationary_too() -> None:
    quick = PriceParams(0.0, 0.5, 0.1, 2 * SLOT, SLOT, 1e6)
    first = np.array([generate_prices(quick, 3, seed, SLOT) for seed in range(4000)])
    assert first.std(axis=0) == pytest.approx([0.1] * 3, rel=0.04)


@pytest.mark.slow
def test_counts_are_stationary_from_their_first_slot_on() -> None:
    first = np.array([generate_counts(COUNTS, 2, seed, SLOT) for seed in range(3000)])
    assert (first == 0).mean(axis=0) == pytest.approx([0.5] * 2, abs=0.03)
    assert (first == 16).mean(axis=0) == pytest.approx([0.3] * 2, abs=0.03)


def test_prices_keep_above_their_floor_and_change_when_looked_at() -> None:
    params = PriceParams(0.45, 0.5, 0.1, 2 * DAY, 0.25 * DAY, changes_per_day=4)
    price = generate_prices(params, 50_000, 5, SLOT)
    assert price.min() == 0.45
    above = price[1:] > 0.45
    changed = np.diff(price) != 0
    rate = changed[above].mean()
    assert rate == pytest.approx(-math.expm1(-4 / 48), abs=0.01)


def test_a_market_is_its_seeds_own_and_a_shorter_one_its_beginning() -> None:
    generator = MarketGenerator(COUNTS, PRICES)
    long, short = generator.market(300, 7), generator.market(120, 7)
    assert long.price[:120].tolist() == short.price.tolist()
    assert long.available[:120].tolist() == short.available.tolist()
    other = generator.market(300, 8)
    assert other.available.tolist() != long.available.tolist()
    assert other.price.tolist() != long.price.tolist()
    assert long.slot_seconds == SLOT


def test_the_two_correlations_are_each_others_inverse_and_the_arc_sine_law_at_the_median() -> None:
    latent = np.array([0.0, 0.3, 0.7, 0.95, 1.0])
    assert seen_correlation(latent, 0.0) == pytest.approx(2 / math.pi * np.arcsin(latent), abs=1e-5)
    for threshold in (-1.0, 0.0, 0.7):
        seen = seen_correlation(latent, threshold)
        assert latent_correlation(seen, threshold) == pytest.approx(latent, abs=1e-4)


def test_a_seen_correlation_is_that_of_drawn_pairs() -> None:
    random = np.random.default_rng(6)
    x, y = random.standard_normal((2, 400_000))
    above = np.stack([x, 0.8 * x + 0.6 * y]) > 0.5
    found = float(np.corrcoef(above[0], above[1])[0, 1])
    assert seen_correlation(np.array([0.8]), 0.5)[0] == pytest.approx(found, abs=0.005)


def test_a_fit_of_counts_finds_their_law_again() -> None:
    truth = CountParams(16, 0.6, 0.3, (Wave(43_200.0, 0.7), Wave(3600.0, 0.3)))
    records = [generate_counts(truth, 48 * 60, seed, SLOT) for seed in range(8)]
    found = fit_counts(records, 16, SLOT)
    assert found.empty == pytest.approx(0.6, abs=0.04)
    assert found.full == pytest.approx(0.3, abs=0.04)
    lags = np.array([1, 2, 6, 24, 48])

    def correlation(params: CountParams) -> list[float]:
        waves = [wave.share * np.exp(-lags * SLOT / wave.seconds) for wave in params.waves]
        return list(np.sum(waves, axis=0))

    assert correlation(found) == pytest.approx(correlation(truth), abs=0.08)
    assert found.daily == DailyCycle()


def test_a_fit_to_short_records_is_not_fooled_by_their_own_means() -> None:
    truth = CountParams(16, 0.5, 0.4, (Wave(129_600.0, 1.0),))
    after_a_day = []
    for seed in range(40):
        found = fit_counts([generate_counts(truth, 48 * 10, seed, SLOT)], 16, SLOT)
        after_a_day.append(sum(w.share * math.exp(-DAY / w.seconds) for w in found.waves))
    # Without what a mean of ten days hides it would be 0.36.
    assert np.mean(after_a_day) == pytest.approx(math.exp(-24 / 36), abs=0.08)


def test_a_fit_of_prices_finds_their_law_again() -> None:
    truth = PriceParams(0.3, 0.33, 0.05, 5 * DAY, 0.5 * DAY, changes_per_day=6)
    records = [generate_prices(truth, 48 * 200, seed, SLOT) for seed in range(6)]
    found = fit_prices(records, SLOT)
    assert found.floor == 0.3
    assert found.mean == pytest.approx(0.33, abs=0.01)
    assert found.deviation == pytest.approx(0.05, rel=0.15)
    assert found.changes_per_day == pytest.approx(6, rel=0.1)
    assert 3 * DAY <= found.reversion_seconds <= 10 * DAY
    assert 0.1 * DAY <= found.smoothing_seconds <= DAY


def test_a_fit_finds_a_daily_cycle_and_makes_up_none() -> None:
    cycle = DailyCycle(1.0, 6 * HOUR)
    price = generate_prices(
        PriceParams(0.0, 0.5, 0.05, 2 * DAY, 0.25 * DAY, 1e6, cycle), 48 * 40, 9, SLOT
    )
    found = fit_prices([price], SLOT).daily
    assert found.amplitude == pytest.approx(1.0, rel=0.35)
    assert found.peak_seconds == pytest.approx(6 * HOUR, abs=1.5 * HOUR)
    without = [
        fit_prices([generate_prices(PRICES, 48 * 40, seed, SLOT)], SLOT).daily for seed in range(10)
    ]
    assert sum(daily == DailyCycle() for daily in without) >= 7


def test_mean_square_change_by_hand() -> None:
    changes = mean_square_change([np.array([1.0, 2.0, 4.0]), np.array([0.0, 3.0])], np.array([1]))
    assert changes.tolist() == [pytest.approx((1 + 4 + 9) / 3)]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.zeros(480, dtype=np.int64), "some of either kind"),
        (np.full(480, 16), "some of either kind"),
        (np.tile([0, 16], 40), r"series\[0\]: lasts 1\.7 days"),
    ],
)
def test_records_that_tell_too_little_are_refused(counts: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_counts([counts], 16, SLOT)


def test_prices_that_never_change_are_refused() -> None:
    with pytest.raises(InputError, match=r"price: is 0\.3 throughout"):
        fit_prices([np.full(480, 0.3)], SLOT)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cap": 0}, "cap"),
        ({"empty": 0.0}, "empty"),
        ({"full": 1.0}, "full"),
        ({"full": 0.6}, "full"),
        ({"waves": (Wave(60.0, 0.5),)}, "waves"),
    ],
)
def test_laws_of_counts_that_cannot_be_are_refused(wrong: dict[str, object], field: str) -> None:
    good: dict[str, object] = {"cap": 16, "empty": 0.5, "full": 0.3, "waves": COUNTS.waves}
    with pytest.raises(InputError, match=f"^{field}:"):
        CountParams(**(good | wrong))  # type: ignore[arg-type]


def test_laws_of_prices_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match=r"^reversion_seconds:"):
        PriceParams(0.3, 0.5, 0.1, DAY, DAY, 4)
    with pytest.raises(InputError, match=r"^changes_per_day:"):
        PriceParams(0.3, 0.5, 0.1, 2 * DAY, DAY, 0)
    with pytest.raises(InputError, match=r"^mean:"):
        PriceParams(0.3, math.inf, 0.1, 2 * DAY, DAY, 1)
