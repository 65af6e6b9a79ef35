"""Planning on quantiles: what it is worth, and what its two limits do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.spot import Robust, SpotJob, SpotMarket, offline_optimum, play
from auctune.spot.forecasts import ForecastTable
from auctune.spot.policies.robust import least_multiplier, make_scenarios
from support.spot_cases import even_jobs, forecast_of, markets, perfect
from support.spot_seen import seen

# One slot of waiting is possible; then all must run.
JOB = SpotJob(workload=3.6, deadline=2, n_max=4, value=20.0)


def gamble(chance: float) -> ForecastTable:
    """Slot 1 has 4 spot GPUs at a tenth with about this chance, else none."""
    levels = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    counts = np.where(levels > 1 - chance, 4, 0)
    price = np.full((2, 1), 0.1)
    return ForecastTable(
        price,
        np.full((2, 1), 4),
        levels,
        np.full((2, 1, 5), 0.1),
        np.broadcast_to(counts, (2, 1, 5)),
    )


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_with_all_foreseen_it_is_optimal(data: st.DataObject) -> None:
    job = data.draw(even_jobs(max_deadline=7, max_gpus=5))
    market = data.draw(markets(job.deadline))
    utility = play(Robust(), job, market, perfect(market)).utility
    assert utility == pytest.approx(offline_optimum(job, market).utility, abs=1e-9)


def test_it_waits_for_what_is_likely_and_reacts_when_it_does_not_come() -> None:
    market = SpotMarket(np.array([0.9, 0.9]), np.array([4, 0]))
    outcome = play(Robust(), JOB, market, gamble(0.8))
    assert outcome.allocations[0].total == 0
    # It is not late for that: on-demand GPUs are always there.
    assert outcome.finish <= 2


def late_or_dear() -> tuple[SpotJob, SpotMarket, ForecastTable]:
    """A job whose lateness costs little, so that utility alone would risk it."""
    job = SpotJob(workload=7.0, deadline=2, n_max=4, value=7.0, hard_factor=10.0)
    market = SpotMarket(np.array([0.99, 0.5]), np.array([0, 4]))
    return job, market, gamble(0.5)


def test_a_limit_on_risk_makes_it_start_at_once() -> None:
    job, market, forecasts = late_or_dear()
    bold = play(Robust(risk=1.0), job, market, forecasts)
    careful = play(Robust(risk=0.05), job, market, forecasts)
    assert bold.finish > job.deadline
    assert careful.finish <= job.deadline
    assert careful.cost > bold.cost


def test_a_cap_on_cost_makes_it_late_rather_than_dear() -> None:
    job = SpotJob(workload=7.0, deadline=2, n_max=4, value=14.0, hard_factor=2.0)
    market = SpotMarket(np.array([0.99, 0.1]), np.array([0, 4]))
    forecasts = gamble(1.0)
    free = play(Robust(), job, market, forecasts)
    capped = play(Robust(cost_cap=4.3), job, market, forecasts)
    assert free.finish <= 2 < capped.finish
    assert capped.cost <= 4.3 < free.cost
    # Where the two limits conflict the cap comes first.
    both = play(Robust(risk=0.05, cost_cap=4.3), job, market, forecasts)
    assert both.cost == capped.cost


def test_the_first_multiplier_whose_slope_keeps_the_limit_is_taken() -> None:
    # J falls by 1 a unit up to 2, then by 0.1.
    def expected(x: float) -> float:
        return -min(x, 2.0) - 0.1 * max(x - 2.0, 0.0)

    ladder = (0.0, 1.0, 2.0, 4.0, 8.0)
    assert least_multiplier(expected, ladder, 1.0) == 1.0
    assert least_multiplier(expected, ladder, 0.2) == 4.0
    assert least_multiplier(expected, ladder, 0.01) is None


def test_scenarios_are_quantiles_each_as_likely_and_price_goes_its_own_way() -> None:
    forecasts = gamble(0.5)
    price = np.linspace(0.1, 0.5, 5)[None, None, :].repeat(2, axis=0)
    table = ForecastTable(
        forecasts.price,
        forecasts.available,
        forecasts.levels,
        price,
        np.arange(5)[None, None, :].repeat(2, axis=0),
    )
    scenarios = make_scenarios(seen(0, price=0.7, available=3), table.at(0), 1, 0.5)
    assert scenarios.weight.tolist() == [0.2] * 5
    assert set(scenarios.price[0]) == {0.7}
    assert set(scenarios.available[0]) == {3}
    assert sorted(scenarios.price[1]) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert scenarios.available[1].tolist() == [0, 1, 2, 3, 4]
    assert np.corrcoef(scenarios.price[1], scenarios.available[1])[0, 1] == pytest.approx(0.0)


def test_a_forecast_without_quantiles_is_one_scenario() -> None:
    scenarios = make_scenarios(seen(0), forecast_of([0.2, 0.3], [1, 2]), 2, 0.5)
    assert scenarios.price[:, 0].tolist() == [0.5, 0.2, 0.3]
    assert scenarios.weight.tolist() == [1.0]


def test_a_job_that_is_worth_nothing_may_have_limits_too() -> None:
    job = SpotJob(workload=7.0, deadline=2, n_max=4, value=0.0)
    market = SpotMarket(np.array([0.99, 0.1]), np.array([0, 4]))
    outcome = play(Robust(risk=0.05), job, market, gamble(0.5))
    assert outcome.finish <= 2


@pytest.mark.parametrize(
    ("place", "policy"),
    [
        ("risk", lambda: Robust(risk=0.0)),
        ("cost_cap", lambda: Robust(cost_cap=0.0)),
        ("persistence", lambda: Robust(persistence=1.1)),
    ],
)
def test_wrong_parameters_are_refused_by_name(place: str, policy: object) -> None:
    assert callable(policy)
    with pytest.raises(InputError, match=f"^{place}"):
        policy()
