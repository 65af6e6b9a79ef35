"""The worked example of Kong et al. (arXiv 2512.20967, Figure 4), with five strategies.

The paper gives 20 units of work, 5 slots, no overhead and a forecast of always 6 spot GPUs. What
its text says of the strategies holds here. The prices and counts of its figure are not in the text:
these were chosen.
"""

import numpy as np
import pytest

from auctune.spot import (
    Ahap,
    OnDemandOnly,
    Overhead,
    Policy,
    SpotFirst,
    SpotJob,
    SpotMarket,
    SpotOutcome,
    UniformProgress,
    offline_optimum,
    play,
)
from auctune.spot.forecasts import ForecastTable
from support.spot_cases import perfect

JOB = SpotJob(workload=20, deadline=5, n_max=8, overhead=Overhead(1.0, 1.0))
MARKET = SpotMarket(np.array([0.3, 0.6, 0.5, 0.3, 0.3]), np.array([3, 5, 4, 1, 1]))
PLANNER = Ahap(window=5, commitment=1, plan_always=True)


def always_six() -> ForecastTable:
    """Prices as they will be, and six spot GPUs in every slot."""
    true = perfect(MARKET)
    six = np.full_like(true.available, 6)
    return ForecastTable(true.price, six, true.levels, true.price_quantiles, six[..., None])


def played(policy: Policy, forecasts: ForecastTable | None = None) -> SpotOutcome:
    return play(policy, JOB, MARKET, forecasts)


def held(outcome: SpotOutcome) -> list[tuple[int, int]]:
    return [(one.on_demand, one.spot) for one in outcome.allocations]


def test_five_strategies_on_twenty_units_in_five_slots() -> None:
    on_demand = played(OnDemandOnly())
    spot_first = played(SpotFirst(switch=0))
    tracking = played(UniformProgress(hysteresis=0.0, top_up=False))
    foreseen = played(PLANNER, perfect(MARKET))
    misled = played(PLANNER, always_six())

    # On-demand alone is on time, and the dearest.
    assert (held(on_demand), on_demand.cost, on_demand.finish) == ([(4, 0)] * 5, 20.0, 5.0)
    # Spot first is the cheapest by the deadline, and late: 6 of 20 units are left.
    assert held(spot_first) == [(0, 3), (0, 5), (0, 4), (0, 1), (0, 1)]
    assert spot_first.slot_cost == pytest.approx(6.5)
    assert spot_first.progress[-1] == 14.0
    assert spot_first.finish > JOB.deadline
    # Tracking the progress is on time; it sees too late how much on-demand it needs.
    assert held(tracking) == [(0, 3), (0, 5), (0, 4), (0, 1), (7, 1)]
    assert tracking.cost == pytest.approx(13.5)
    assert tracking.finish == 4.875
    # With perfect forecasts the plan is the optimum.
    assert foreseen.cost == pytest.approx(12.5)
    assert foreseen.finish == JOB.deadline
    assert foreseen.utility == pytest.approx(offline_optimum(JOB, MARKET).utility)
    # Misled by the forecast, it waits for cheap GPUs that never come, and pays more than tracking.
    assert held(misled) == [(0, 3), (0, 0), (0, 4), (4, 1), (7, 1)]
    assert misled.cost == pytest.approx(14.5)
    assert misled.finish == JOB.deadline
