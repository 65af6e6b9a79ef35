"""Trials of one job, where they begin, and how jobs vary."""

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from auctune.domain import InputError
from auctune.numerics.estimates import mean_of, ratio_of
from auctune.sim.spot.forecasts import forecaster_names, parse_forecaster
from auctune.sim.spot.trials import (
    COUNTS,
    Start,
    Variation,
    benchmark_markets,
    draw_starts,
    make_trials,
    parse_variation,
    play_all,
    widest_horizon,
    write_comparison,
)
from auctune.spot import Ahap, OnDemandOnly, Policy, Robust, SpotFirst, SpotJob, SpotMarket, play
from auctune.spot.forecasts import Forecaster, PerfectForecaster, make_forecasts
from support.market_rows import even_rows, write_rows
from support.spot_files import daily_market

JOB = SpotJob(workload=12, deadline=4, n_max=6)
MARKETS = (daily_market(60), daily_market(50, period=8))


class Counting:
    """A way to forecast that counts what it is asked."""

    knows_future = True

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        perfect, asked = PerfectForecaster(market), self.asked

        class One:
            def forecast(self, past: SpotMarket, num_slots: int) -> object:
                asked.append((market.num_slots, past.num_slots))
                return perfect.forecast(past, num_slots)

        return One()  # type: ignore[return-value]


def test_a_slot_is_forecast_once_however_many_jobs_go_through_it() -> None:
    counting = Counting()
    starts = (Start(0, 3), Start(0, 5), Start(1, 3), Start(0, 3))
    trials = make_trials(JOB, MARKETS, starts, counting, [Ahap(window=3)])
    assert len(counting.asked) == len(set(counting.asked)) == 6 + 4
    for start, table in zip(starts, trials.forecasts, strict=True):
        market = MARKETS[start.market]
        alone = make_forecasts(PerfectForecaster(market), market, start.slot, 4, 2)
        assert table is not None
        assert np.array_equal(table.price, alone.price)


def test_nobody_forecasts_for_policies_that_do_not_look() -> None:
    counting = Counting()
    trials = make_trials(JOB, MARKETS, (Start(0, 0),), counting, [SpotFirst(), OnDemandOnly()])
    assert counting.asked == []
    assert trials.forecasts == (None,)


def test_forecasts_reach_as_far_as_any_policy_looks_and_the_job_lasts() -> None:
    assert widest_horizon([SpotFirst()], JOB) == 0
    assert widest_horizon([SpotFirst(), Ahap(window=3)], JOB) == 2
    assert widest_horizon([Ahap(window=9)], JOB) == widest_horizon([Robust()], JOB) == 3


def test_a_comparison_is_the_policies_played_one_by_one() -> None:
    policies: tuple[Policy, ...] = (SpotFirst(), Robust(), Ahap(window=3))
    starts = draw_starts(MARKETS, 15, JOB.deadline, past=0, seed=2)
    trials = make_trials(JOB, MARKETS, starts, parse_forecaster("seasonal", ""), policies)
    comparison = play_all(trials, policies)
    for j in range(15):
        for m, policy in enumerate(policies):
            alone = play(policy, JOB, trials.markets[j], trials.forecasts[j])
            assert comparison.outcome.utility[j, m] == alone.utility
        assert comparison.optimum[j] >= comparison.outcome.utility[j].max() - 1e-9
    means = [comparison.score(m).utility.value for m in comparison.ranked()]
    assert means == sorted(means, reverse=True)
    file = io.BytesIO()
    write_comparison(comparison, file)
    file.seek(0)
    frame = pl.read_parquet(file)
    assert np.array_equal(frame["utility"].to_numpy().reshape(15, 3), comparison.outcome.utility)


@pytest.mark.parametrize("name", [name for name in forecaster_names() if name != "arima"])
def test_each_forecaster_is_had_by_its_name(name: str) -> None:
    market = daily_market(60)
    made = parse_forecaster(name, "--forecast").forecaster(market, 0)
    forecast = made.forecast(market.until(40), 3)
    assert forecast.num_slots == 3
    assert len(forecast.levels) > 0
    assert forecast.available_quantiles.max() <= market.available.max()


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(0)
    held_mean = held_ratio = 0
    for _ in range(400):
        below = random.uniform(1.0, 3.0, 80)
        above = 0.8 * below + random.normal(0.0, 0.5, 80)
        mean, ratio = mean_of(above), ratio_of(above, below)
        assert ratio is not None
        held_mean += mean.low <= 1.6 <= mean.high
        held_ratio += ratio.low <= 0.8 <= ratio.high
    assert 0.91 < held_mean / 400 < 0.98
    assert 0.91 < held_ratio / 400 < 0.98


def test_one_trial_has_no_interval_and_a_loss_no_share() -> None:
    assert mean_of(np.array([3.0])).half_width is None
    assert ratio_of(np.array([1.0, 2.0]), np.array([-1.0, 0.5])) is None


DAY = 86_400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Counts of a day and a half, and five and a half days of hourly prices in two zones."""
    counts = [(hour % 17, "") for hour in range(36)]
    write_rows(tmp_path / COUNTS, even_rows(counts, step=3600))
    for zone, usd in (("b", 0.918), ("a", 1.836)):
        prices = [("", usd + 0.001 * hour) for hour in range(132)]
        write_rows(tmp_path / f"aws2020_{zone}_v100-1gpu_price.csv", even_rows(prices, step=3600))
    write_rows(tmp_path / "aws2020_a_v100-8gpu_price.csv", ["nonsense"])
    return tmp_path


def test_each_zone_gives_markets_of_different_days(folder: Path) -> None:
    made = benchmark_markets(folder, slot_seconds=3600.0)
    # Those of day 4 end with the prices.
    names = [f"{zone}, day {day}" for zone in "ab" for day in (0, 2, 4)]
    assert [named.name for named in made] == names
    for named in made:
        assert named.market.available.tolist() == [hour % 17 for hour in range(36)]
    assert made[0].market.price[0] == pytest.approx(0.6)
    assert made[1].market.price[0] == pytest.approx((1.836 + 0.048) / 3.06)


def test_a_folder_without_the_files_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no aws2020"):
        benchmark_markets(tmp_path / "elsewhere")
    (folder / COUNTS).unlink()
    with pytest.raises(InputError, match="cannot be read"):
        benchmark_markets(folder)


def markets_of(*lengths: int) -> list[SpotMarket]:
    return [SpotMarket(np.full(n, 0.5), np.ones(n, dtype=np.int64)) for n in lengths]


def test_starts_leave_the_past_and_the_job_room_and_reach_all_places() -> None:
    markets = markets_of(12, 15)
    starts = draw_starts(markets, 500, 4, past=6, seed=1)
    allowed = {Start(0, slot) for slot in range(6, 9)} | {Start(1, slot) for slot in range(6, 12)}
    assert set(starts) == allowed


def test_starts_are_the_seeds_own_and_fewer_are_the_first_of_more() -> None:
    markets = markets_of(300, 300)
    starts = draw_starts(markets, 40, 10, seed=3)
    assert draw_starts(markets, 15, 10, seed=3) == starts[:15]
    assert draw_starts(markets, 40, 10, seed=4) != starts


def test_a_market_without_room_is_named() -> None:
    with pytest.raises(InputError, match=r"markets\[1\]: 9 slots; expected 6 \+ 4 at least"):
        draw_starts(markets_of(10, 9), 3, 4, past=6)


VARIED_JOB = SpotJob(workload=80.0, deadline=10, n_max=12, value=160.0)
FIG_9 = ("workload=60-100", "n_min=1,2,4", "n_max=8,12,16")


def test_jobs_are_drawn_from_the_ranges_and_their_value_goes_with_their_work() -> None:
    drawn = parse_variation(FIG_9, "--vary").draw(VARIED_JOB, 2000, seed=1)
    works = np.array([job.workload for job in drawn])
    assert 60 <= works.min() < 61 < 99 < works.max() <= 100
    assert works.mean() == pytest.approx(80, abs=1)
    pairs = [(job.n_min, job.n_max) for job in drawn]
    for pair in ((n_min, n_max) for n_min in (1, 2, 4) for n_max in (8, 12, 16)):
        assert pairs.count(pair) == pytest.approx(2000 / 9, abs=60)
    assert all(job.value == pytest.approx(2 * job.workload) for job in drawn)
    assert {job.deadline for job in drawn} == {10}


def test_fewer_jobs_are_the_first_of_more_and_differ_by_seed() -> None:
    variation = parse_variation(FIG_9, "--vary")
    assert variation.draw(VARIED_JOB, 5, seed=1) == variation.draw(VARIED_JOB, 50, seed=1)[:5]
    assert variation.draw(VARIED_JOB, 5, seed=1) != variation.draw(VARIED_JOB, 5, seed=2)


def test_what_is_not_said_is_the_jobs_own() -> None:
    assert Variation().draw(VARIED_JOB, 2, seed=0) == (VARIED_JOB, VARIED_JOB)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("deadline=3-4", "deadline=3-4"),
        ("workload=60", "workload=60"),
        ("workload=100-60", "100-60; expected the less before the more"),
        ("workload=0-60", "workload: 0"),
        ("workload=1-1e300", "workload: 1e+300; expected at most 1000000000"),
        ("n_min=1,two", "n_min=1,two"),
    ],
)
def test_wrong_texts_are_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match="--vary") as refused:
        parse_variation([text], "--vary")
    assert says in str(refused.value)
    with pytest.raises(InputError, match="twice"):
        parse_variation(["n_min=1", "n_min=2"], "--vary")


def test_counts_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(InputError, match="n_max"):
        parse_variation(["n_min=1,10", "n_max=8,16"], "--vary").draw(VARIED_JOB, 1, seed=0)
