"""Planning on quantiles: what it is worth, and what its two limits do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.spot import Robust, SpotJob, SpotMarket, offline_optimum, play
from auctune.spot.forecasts import ForecastTable, MarkovChain, make_forecasts
from auctune.spot.job import InstanceStart, TableScaling
from auctune.spot.window import expectation
from auctune.spot.window.expectation import Multipliers, make_scenarios
from auctune.spot.window.limits import (
    CERTAIN,
    COST_MULTIPLIERS,
    LATE_MULTIPLIERS,
    Limits,
    multipliers_within,
)
from support.spot_cases import even_jobs, forecast_of, markets, perfect
from support.thorough import drawn

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
@drawn(60)
def test_with_all_foreseen_it_is_optimal(data: st.DataObject) -> None:
    job = data.draw(even_jobs(max_deadline=7, max_gpus=5))
    market = data.draw(markets(job.deadline))
    utility = play(Robust(risk=1.0), job, market, perfect(market)).utility
    assert utility == pytest.approx(offline_optimum(job, market).utility, abs=1e-9)


def test_it_waits_for_what_is_likely_and_reacts_when_it_does_not_come() -> None:
    market = SpotMarket(np.array([0.9, 0.9]), np.array([4, 0]))
    outcome = play(Robust(risk=1.0), JOB, market, gamble(0.8))
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
    assert bold.finish > job.deadline
    for risk in (0.0, 0.05):
        careful = play(Robust(risk), job, market, forecasts)
        assert careful.finish <= job.deadline
        assert careful.cost > bold.cost


def test_a_cap_on_cost_makes_it_late_rather_than_dear() -> None:
    job = SpotJob(workload=7.0, deadline=2, n_max=4, value=14.0, hard_factor=2.0)
    market = SpotMarket(np.array([0.99, 0.1]), np.array([0, 4]))
    forecasts = gamble(1.0)
    free = play(Robust(risk=1.0), job, market, forecasts)
    capped = play(Robust(risk=1.0, cost_cap=4.3), job, market, forecasts)
    assert free.finish <= 2 < capped.finish
    assert capped.cost <= 4.3 < free.cost
    # Where the two limits conflict the cap comes first.
    for risk in (0.0, 0.05):
        assert play(Robust(risk, 4.3), job, market, forecasts).cost == capped.cost


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(0, 1), st.floats(0, 4)), min_size=1, max_size=6),
    st.sampled_from([0.0, 0.01, 0.05, 0.3, 1.0]),
    st.sampled_from([np.inf, 2.0, 1.0]),
)
def test_multipliers_are_the_first_whose_best_plan_keeps_the_limits(
    plans: list[tuple[float, float, float]], risk: float, left: float
) -> None:
    """A plan is worth a utility, is late with a probability and has a cost."""

    def worth(pair: Multipliers) -> float:
        return max(utility - pair.late * late - pair.cost * cost for utility, late, cost in plans)

    stake = 2.0
    chosen = multipliers_within(Limits(risk, left), stake, worth)

    def slope(lower: Multipliers, upper: Multipliers) -> float:
        # One of the two differs: their sums would round the step.
        step = (upper.late - lower.late) + (upper.cost - lower.cost)
        return (worth(lower) - worth(upper)) / step

    # The slope before a multiplier bounds what the best plan beside it takes.
    if chosen.cost > COST_MULTIPLIERS[1] and left < np.inf:
        below = COST_MULTIPLIERS[COST_MULTIPLIERS.index(chosen.cost) - 1]
        before = COST_MULTIPLIERS[COST_MULTIPLIERS.index(below) - 1]
        late = chosen.late
        assert slope(Multipliers(late, before), Multipliers(late, below)) > left
    if risk == 0.0 and left == np.inf:
        assert chosen.late == CERTAIN * stake
    if 0.0 < risk < 1.0 and left == np.inf and chosen.late < LATE_MULTIPLIERS[-1] * stake:
        steps = [share * stake for share in LATE_MULTIPLIERS]
        below = steps[steps.index(chosen.late) - 1]
        assert slope(Multipliers(below, 0.0), chosen) <= risk


def test_a_risk_that_was_taken_is_not_taken_again() -> None:
    limits = Limits(0.05, np.inf)
    assert multipliers_within(limits, 1.0, lambda _: 0.0) == (0.001, 0.0)
    assert multipliers_within(limits, 1.0, lambda _: 0.0, least_late=0.5) == (0.5, 0.0)


def test_the_name_tells_policies_apart() -> None:
    kinds = [
        Robust(),
        Robust(1.0),
        Robust(0.05),
        Robust(0.05, 9.0),
        Robust(0.05, 9.0, 0.8),
        Robust(0.05, None, 0),
    ]
    assert [one.name for one in kinds] == [
        "robust(risk=0)",
        "robust(risk=1)",
        "robust(risk=0.05)",
        "robust(risk=0.05,cost_cap=9)",
        "robust(risk=0.05,cost_cap=9,persistence=0.8)",
        "robust(risk=0.05,persistence=0)",
    ]


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
    scenarios = make_scenarios(0.7, 3, table.at(0), 1, 0.5)
    drawn = scenarios.transition[scenarios.present]
    assert drawn.tolist() == [0.2] * 5
    assert scenarios.transition[0].tolist() == pytest.approx([0.6, 0.1, 0.1, 0.1, 0.1])
    assert set(scenarios.price[0]) == {0.7}
    assert set(scenarios.available[0]) == {3}
    assert sorted(scenarios.price[1]) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert scenarios.available[1].tolist() == [0, 1, 2, 3, 4]
    assert np.corrcoef(scenarios.price[1], scenarios.available[1])[0, 1] == pytest.approx(0.0)


def test_a_forecast_without_quantiles_is_one_scenario() -> None:
    scenarios = make_scenarios(0.5, 3, forecast_of([0.2, 0.3], [1, 2]), 2, 0.5)
    assert scenarios.price[:, 0].tolist() == [0.5, 0.2, 0.3]
    assert scenarios.transition[scenarios.present].tolist() == [1.0]


def test_a_job_that_is_worth_nothing_may_have_limits_too() -> None:
    job = SpotJob(workload=7.0, deadline=2, n_max=4, value=0.0)
    market = SpotMarket(np.array([0.99, 0.1]), np.array([0, 4]))
    outcome = play(Robust(risk=0.05), job, market, gamble(0.5))
    assert outcome.finish <= 2


@pytest.mark.parametrize(
    ("place", "policy"),
    [
        ("risk", lambda: Robust(risk=-0.1)),
        ("cost_cap", lambda: Robust(cost_cap=0.0)),
        ("persistence", lambda: Robust(persistence=1.1)),
    ],
)
def test_wrong_parameters_are_refused_by_name(place: str, policy: object) -> None:
    assert callable(policy)
    with pytest.raises(InputError, match=f"^{place}"):
        policy()


def test_a_plan_that_is_kept_decides_as_one_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """At full speed too, where work that the grid rounds down is beyond the plan's own steps."""
    # 130.95 steps in a slot with 8 GPUs.
    table = (1.0, 1.97, 2.92, 3.85, 4.76, 5.65, 6.52, 7.373)
    job = SpotJob(
        workload=112.6078,
        deadline=16,
        n_max=8,
        scaling=TableScaling(table),
        overhead=InstanceStart(0.0),
    )
    market = SpotMarket(np.full(400, 0.3), np.full(400, 8))
    forecasts = make_forecasts(MarkovChain(), market, 300, 16, 15)
    kept = play(Robust(), job, market.between(300, 316), forecasts)
    monkeypatch.setattr(expectation, "KEPT_BYTES", 0)
    anew = play(Robust(), job, market.between(300, 316), forecasts)
    assert kept.allocations == anew.allocations
