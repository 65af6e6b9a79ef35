import numpy as np
import pytest

from auctune.spot import InfeasibleAllocationError, SpotAllocation, SpotJob
from auctune.spot.allocation import check

JOB = SpotJob(workload=8, deadline=2, n_min=2, n_max=4)


@pytest.mark.parametrize(("on_demand", "spot"), [(0, 0), (2, 0), (0, 2), (1, 3), (4, 0)])
def test_what_keeps_the_constraints_passes(on_demand: int, spot: int) -> None:
    check(SpotAllocation(on_demand, spot), JOB, 3, 0)


@pytest.mark.parametrize(
    ("on_demand", "spot", "constraint"),
    [
        (0, 4, "5b"),
        (-1, 3, "5b"),
        (3, -1, "5b"),
        (1, 0, "5c"),
        (2, 3, "5c, 5d"),
        (2.5, 0, "5e"),
        (np.int64(2), 0, "5e"),
    ],
)
def test_what_breaks_one_is_an_error_that_names_it(
    on_demand: int, spot: int, constraint: str
) -> None:
    with pytest.raises(InfeasibleAllocationError, match=rf"slot 7: .*\({constraint}"):
        check(SpotAllocation(on_demand, spot), JOB, 3, 7)
