import numpy as np
import pytest

from auctune.spot import LinearScaling, Overhead, SpotJob, TableScaling
from auctune.spot.terms import exact_grid, plan_grid, rounded_grid

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


def test_works_without_a_coarse_grid_are_rounded_down_for_plans() -> None:
    assert exact_grid(UNEVEN) is None
    grid = plan_grid(UNEVEN)
    assert grid.rounding == "down"


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
