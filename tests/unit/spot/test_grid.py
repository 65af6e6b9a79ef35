"""The work grid."""

from dataclasses import replace

import numpy as np
import pytest

from auctune.spot import (
    InstanceStart,
    LinearScaling,
    Overhead,
    SpotJob,
    TableScaling,
)
from auctune.spot.account import job_constants
from auctune.spot.grid import PLAN_TABLES, exact_grid, plan_grid, rounded_grid
from auctune.spot.window.table import check_memory, target_units

UNEVEN = SpotJob(
    workload=4, deadline=3, n_max=3, scaling=TableScaling((1.000003, 1.900001, 2.700007))
)


def test_the_paper_s_setting_lies_on_twentieths() -> None:
    grid = exact_grid(SpotJob(workload=80, deadline=10, n_max=3))
    assert grid is not None
    assert grid.step == 0.05
    assert grid.units.tolist() == [[0, 18, 36, 54], [0, 19, 38, 57], [0, 20, 40, 60]]


def test_the_step_is_the_greatest_that_fits() -> None:
    job = SpotJob(
        workload=8,
        deadline=2,
        n_min=2,
        n_max=4,
        scaling=LinearScaling(2.0, 2.0),
        overhead=Overhead(0.5, 1.0),
    )
    grid = exact_grid(job)
    assert grid is not None
    # H = 6, 8, 10, and halves of them.
    assert grid.step == 1.0
    assert grid.units[0].tolist() == [0, 0, 3, 4, 5]


def test_a_start_given_by_two_times_lies_on_a_grid() -> None:
    job = SpotJob(workload=8, deadline=2, n_max=2, overhead=InstanceStart(180 / 2700))
    grid = exact_grid(job)
    assert grid is not None
    assert grid.step == 1 / 15
    assert grid.units.tolist() == [[0, 14, 28], [0, 1, 2], [0, 15, 30]]
    assert job_constants(job, 1.0).start == 1 / 15


def test_works_without_a_coarse_grid_are_rounded_down_for_plans() -> None:
    assert exact_grid(UNEVEN) is None
    grid = plan_grid(UNEVEN)
    assert grid.rounding == "down"


def test_by_instance_a_grid_has_as_many_fewer_steps_as_there_are_more_states() -> None:
    job = SpotJob(workload=99, deadline=60, n_max=4, overhead=Overhead(0.995, 0.995))
    by_instance = replace(job, overhead=InstanceStart(0.005))
    assert exact_grid(job) is not None, "19,800 steps of 20,000"
    assert exact_grid(by_instance) is None, "with five times as many states 4,000 are the most"
    # A long job is rounded to more steps than that, and so may have them exactly.
    assert exact_grid(replace(by_instance, workload=990, overhead=InstanceStart(0.05))) is not None


@pytest.mark.parametrize("start", [0.1, 180 / 2700, 2.5])
@pytest.mark.parametrize(("n_max", "deadline"), [(4, 1500), (16, 400), (32, 92), (100, 10)])
def test_by_instance_plans_and_bounds_fit_into_memory(
    n_max: int, deadline: int, start: float
) -> None:
    job = SpotJob(
        workload=deadline * n_max / 2,
        deadline=deadline,
        n_max=n_max,
        overhead=InstanceStart(start),
    )
    for num_tables, grid in (
        (PLAN_TABLES, plan_grid(job)),
        (deadline, rounded_grid(job, "up", 4000, deadline)),
    ):
        units = int(target_units(job_constants(job, 1.0, grid), job.workload)) + 1
        check_memory(num_tables + 2, n_max, units, by_instance=True)


@pytest.mark.parametrize("rounding", ["down", "up"])
def test_rounding_errs_by_less_than_a_step_to_its_side(rounding: str) -> None:
    grid = rounded_grid(UNEVEN, "up" if rounding == "up" else "down", 1000)
    shares = np.array([0.9, 0.95, 1.0])[:, None]
    works = shares * np.array([1.000003, 1.900001, 2.700007])
    error = grid.units[:, 1:] * grid.step - works
    if rounding == "down":
        assert error.max() <= 1e-12
        assert error.min() > -grid.step
    else:
        assert error.min() >= -1e-12
        assert error.max() < grid.step
