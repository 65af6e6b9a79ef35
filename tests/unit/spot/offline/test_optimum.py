"""The two ways to the offline optimum, and what bounds it."""

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.spot import (
    LinearScaling,
    SpotJob,
    TableScaling,
    offline_bound,
    offline_optimum,
)
from auctune.spot.grid import exact_grid, rounded_grid
from auctune.spot.offline.optimum import Program, best_by_labels
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


def test_a_market_that_ends_before_the_deadline_is_refused() -> None:
    with pytest.raises(InputError, match=r"^market"):
        offline_optimum(SpotJob(workload=9, deadline=3), random_market(2, 0))
