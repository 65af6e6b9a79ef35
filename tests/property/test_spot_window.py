"""The window program equals the best of all allocations of its window."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.spot import SpotJob
from auctune.spot.account import job_constants, state_of
from auctune.spot.window.program import fill_window, follow, make_scratch
from auctune.spot.window.table import units_done
from support.spot_cases import even_jobs, markets, started_jobs
from support.spot_oracle import all_held, best_value, exact, on_grid, outcome, worth
from support.thorough import drawn


@given(st.data())
@drawn(150)
def test_the_plan_is_the_best_of_all(data: st.DataObject) -> None:
    job = data.draw(st.one_of(even_jobs(6, 3), started_jobs(6, 2)))
    slot = data.draw(st.integers(0, job.deadline - 1))
    end = min(slot + data.draw(st.integers(1, 3)), job.deadline)
    market = data.draw(markets(end - slot, most=3))
    last = data.draw(st.sampled_from(all_held(job, job.n_max)))
    terms = job_constants(job, market.on_demand_price)
    done = data.draw(st.integers(terms.debt, units_done(terms, job.workload)))
    progress = on_grid(terms, done - terms.debt)

    scratch = make_scratch(terms, end - slot)
    low = data.draw(st.integers(0, done))
    high = fill_window(terms, scratch, market.price, market.available, slot, end, low)
    plan = np.zeros((end - slot, 2), dtype=np.int64)
    value = follow(
        terms,
        scratch,
        market.price,
        market.available,
        end - slot,
        done,
        high,
        state_of(terms, *last),
        plan,
    )

    prices = market.price.tolist()
    best = best_value(
        job,
        prices,
        market.available.tolist(),
        market.on_demand_price,
        slot=slot,
        progress=progress,
        last=last,
    )
    assert value == pytest.approx(float(best), abs=1e-9)
    held = [(int(row[0]), int(row[1])) for row in plan]
    reached, cost, kept = outcome(job, prices, market.on_demand_price, held, progress, last)
    target = exact(job.workload) * end / job.deadline
    plan_value = worth(job, exact(market.on_demand_price), target - reached, kept) - cost
    assert float(plan_value) == pytest.approx(float(best), abs=1e-9)


def test_of_equal_plans_the_one_with_more_spot_now_is_taken() -> None:
    job = SpotJob(workload=2.0, deadline=2, n_max=2, value=10.0)
    terms = job_constants(job, 1.0)
    scratch = make_scratch(terms, 2)
    price, available = np.array([0.5, 0.5]), np.array([2, 2])
    # One unit is left: one GPU in either slot does it at the same price.
    high = fill_window(terms, scratch, price, available, 0, 2, 0)
    plan = np.zeros((2, 2), dtype=np.int64)
    follow(terms, scratch, price, available, 2, units_done(terms, 1.1), high, 0, plan)
    assert plan.tolist() == [[0, 1], [0, 0]]


def test_of_equal_plans_with_no_spot_on_demand_waits() -> None:
    job = SpotJob(workload=2.0, deadline=2, n_max=2, value=10.0)
    terms = job_constants(job, 1.0)
    scratch = make_scratch(terms, 2)
    price, available = np.array([0.5, 0.5]), np.array([0, 0])
    high = fill_window(terms, scratch, price, available, 0, 2, 0)
    plan = np.zeros((2, 2), dtype=np.int64)
    follow(terms, scratch, price, available, 2, units_done(terms, 1.1), high, 0, plan)
    assert plan.tolist() == [[0, 0], [1, 0]]
