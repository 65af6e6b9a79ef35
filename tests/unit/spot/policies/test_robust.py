"""Planning on quantiles: what it is worth, and what its two limits do."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.spot import Robust, SpotJob, SpotMarket, offline_optimum, play
from auctune.spot.forecasts import ForecastTable
from auctune.spot.policies.robust import make_scenarios
from auctune.spot.terms import job_constants, termination_cost
from auctune.spot.window.limits import (
    COST_MULTIPLIERS,
    LATE_MULTIPLIERS,
    Limits,
    make_limits_scratch,
    multipliers_for,
    solve_with_multipliers,
)
from support.spot_cases import even_jobs, forecast_of, markets, perfect
from support.spot_seen import seen
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


@pytest.mark.parametrize(("risk", "left"), [(0.05, np.inf), (0.3, 2.0), (1.0, 1.2), (0.01, 1.0)])
def test_the_first_multiplier_whose_slope_keeps_the_limit_is_taken(
    risk: float, left: float
) -> None:
    terms = job_constants(SpotJob(workload=4.0, deadline=2, n_max=4, value=6.0), 1.0)
    observation = seen(0, price=0.9, available=4)
    scenarios = make_scenarios(observation, gamble(0.5).at(0), 1, 0.5)

    def expected(late: float, dear: float) -> float:
        scratch = make_limits_scratch(terms, len(scenarios.weight))
        return float(
            scratch.value[solve_with_multipliers(terms, scratch, scenarios, 0, 0, late, dear)]
        )

    def first(ladder: list[float], limit: float, worth: Callable[[float], float]) -> float | None:
        if limit == np.inf:
            return 0.0
        slopes = ((worth(x) - worth(y)) / (y - x) for x, y in pairwise(ladder))
        kept = [slope <= limit for slope in slopes]
        return ladder[1 + kept.index(True)] if any(kept) else None

    stake = terms.value + termination_cost(terms, terms.workload)
    steps = [share * stake for share in LATE_MULTIPLIERS.tolist()]
    dear = first(COST_MULTIPLIERS.tolist(), left, lambda y: expected(0.0, y))
    late: float | None = 0.0
    if dear is None:
        dear = 20.0
    elif risk < 1:
        alone = dear
        late = first(steps, risk, lambda y: expected(y, alone))
        late = steps[-1] if late is None else late
        kept = late
        both = first(COST_MULTIPLIERS.tolist(), left, lambda y: expected(kept, y))
        late, dear = (0.0, alone) if both is None else (kept, both)
    scratch = make_limits_scratch(terms, len(scenarios.weight))
    found = multipliers_for(terms, scratch, scenarios, Limits(risk, left), 0, 0)
    assert found == (late, dear)


def test_the_name_tells_policies_apart() -> None:
    kinds = [
        Robust(),
        Robust(0.05),
        Robust(0.05, 9.0),
        Robust(0.05, 9.0, 0.8),
        Robust(0.05, None, 0),
    ]
    assert [one.name for one in kinds] == [
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
