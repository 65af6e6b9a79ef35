"""The two ways to the offline optimum, and what bounds it."""

import re
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.spot import (
    InstanceStart,
    LinearScaling,
    SpotAllocation,
    SpotJob,
    SpotMarket,
    SpotOutcome,
    TableScaling,
    offline_bound,
    offline_optimum,
    settle,
)
from auctune.spot.grid import exact_grid, rounded_grid
from auctune.spot.offline import Program, best_by_labels
from auctune.spot.window.table import check_memory
from support.spot_markets import random_market


@pytest.mark.parametrize("seed", range(6))
def test_labels_and_the_grid_agree_on_jobs_of_the_paper_s_size(seed: int) -> None:
    random = np.random.default_rng(seed)
    job = SpotJob(
        workload=float(random.uniform(60, 100)),
        deadline=10,
        n_min=int(random.choice([1, 2, 4])),
        n_max=int(random.choice([8, 12])),
        scaling=LinearScaling(1.0, 0.5),
    )
    market = random_market(10, seed)
    by_grid = offline_optimum(job, market)
    by_labels = best_by_labels(job, market)
    assert by_labels.utility == pytest.approx(by_grid.utility, abs=1e-9)


def test_without_a_grid_the_optimum_lies_between_its_bounds() -> None:
    table = tuple(round(1.0007 * n**0.93, 5) for n in range(1, 13))
    job = SpotJob(workload=60, deadline=10, n_max=12, scaling=TableScaling(table))
    assert exact_grid(job) is None
    for seed in range(3):
        market = random_market(10, seed)
        best = offline_optimum(job, market).utility
        lower = Program(job, market, rounded_grid(job, "down")).value()
        assert lower <= best <= offline_bound(job, market)
        assert offline_bound(job, market) - best < 0.005 * job.value


def test_a_market_without_spot_is_served_on_demand() -> None:
    job = SpotJob(workload=9, deadline=2, n_max=5, value=20)
    market = random_market(2, 0, most=0)
    best = offline_optimum(job, market)
    assert [held.total for held in best.outcome.allocations] == [5, 5]
    assert best.utility == pytest.approx(10.0)


def every_plan(job: SpotJob, market: SpotMarket) -> Iterator[SpotOutcome]:
    """Yield what each sequence of allocations comes to."""
    slots = [
        [
            SpotAllocation(on_demand, spot)
            for on_demand in range(job.n_max + 1)
            for spot in range(min(int(available), job.n_max - on_demand) + 1)
        ]
        for available in market.available[: job.deadline]
    ]
    for plan in product(*slots):
        yield settle(job, market, plan)


@pytest.mark.parametrize("start", [0.1, 0.4, 1.0])
def test_the_optimum_on_time_is_the_best_that_keeps_the_deadline(start: float) -> None:
    job = SpotJob(workload=3, deadline=4, n_max=2, overhead=InstanceStart(start))
    for seed in range(8):
        market = random_market(4, seed, most=2)
        plans = list(every_plan(job, market))
        on_time = [outcome.utility for outcome in plans if outcome.finish <= job.deadline]
        best, punctual = offline_optimum(job, market), offline_optimum(job, market, on_time=True)
        assert best.utility == pytest.approx(max(outcome.utility for outcome in plans))
        assert punctual.outcome.finish <= job.deadline
        assert punctual.utility == pytest.approx(max(on_time))


def test_work_that_cannot_be_done_by_the_deadline_has_the_optimum_as_it_is() -> None:
    job, market = SpotJob(workload=9, deadline=2, n_max=4), random_market(2, 0)
    best = offline_optimum(job, market)
    assert best.outcome.finish > 2
    assert offline_optimum(job, market, on_time=True).outcome == best.outcome


def test_a_little_work_costs_less_after_the_deadline_than_in_a_slot() -> None:
    # 2.1 slots with the start: a third slot is paid whole, a tenth of one after the deadline.
    job = SpotJob(workload=2, deadline=3, n_max=1, overhead=InstanceStart(0.1))
    market = SpotMarket(np.ones(3), np.zeros(3, dtype=np.int64))
    free, on_time = (offline_optimum(job, market, on_time=kept).outcome for kept in (False, True))
    assert (on_time.cost, on_time.finish) == pytest.approx((3.0, 2.1))
    assert (free.cost, free.finish) == pytest.approx((2.1, 3.1))


def test_a_market_that_ends_before_the_deadline_is_refused() -> None:
    with pytest.raises(InputError, match=r"^market"):
        offline_optimum(SpotJob(workload=9, deadline=3), random_market(2, 0))


def test_tables_that_do_not_fit_are_refused_before_they_are_made() -> None:
    market = SpotMarket(np.full(3000, 0.4), np.full(3000, 4))
    # 3,000 slots of 65 counts and 20,000 steps of work: 29 GiB.
    job = SpotJob(workload=1000.0, deadline=3000, n_max=64)
    with pytest.raises(
        InputError, match=r"^job: takes 3000 tables of 65 states x 20001 steps"
    ) as it:
        offline_optimum(job, market)
    fits = re.search(r"n_max <= (\d+) or (\d+) tables", str(it.value))
    assert fits is not None
    most_gpus, most_slots = int(fits[1]), int(fits[2])
    check_memory(3000, most_gpus, 20001)
    check_memory(most_slots, 64, 20001)
    for slots, counts in ((3000, most_gpus + 1), (most_slots + 1, 64)):
        with pytest.raises(InputError):
            check_memory(slots, counts, 20001)
