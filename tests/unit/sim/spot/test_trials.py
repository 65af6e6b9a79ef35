import io

import numpy as np
import polars as pl
import pytest

from auctune.sim.spot.forecasts import forecaster_names, parse_forecaster
from auctune.sim.spot.statistics import mean_of, ratio_of
from auctune.sim.spot.trials import (
    Start,
    draw_starts,
    make_trials,
    play_all,
    widest_horizon,
    write_comparison,
)
from auctune.spot import Ahap, OnDemandOnly, Policy, Robust, SpotFirst, SpotJob, play
from auctune.spot.forecasts import Forecaster, PerfectForecaster, make_forecasts
from auctune.spot.market import SpotMarket
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


def test_a_rivalry_is_the_policies_played_one_by_one() -> None:
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
