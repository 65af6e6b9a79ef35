from itertools import product

import numpy as np
import pytest

from auctune.spot import InfeasibleAllocationError, SpotAllocation, SpotJob
from auctune.spot.policy import check

JOB = SpotJob(workload=8, deadline=2, n_min=2, n_max=4)


def passes(on_demand: int, spot: int) -> bool:
    try:
        check(SpotAllocation(on_demand, spot), JOB, 3, 0)
    except InfeasibleAllocationError:
        return False
    return True


def test_exactly_what_keeps_the_constraints_passes() -> None:
    passed = {pair for pair in product(range(-1, 7), repeat=2) if passes(*pair)}
    of_two, of_three = {(2, 0), (1, 1), (0, 2)}, {(3, 0), (2, 1), (1, 2), (0, 3)}
    assert passed == {(0, 0)} | of_two | of_three | {(4, 0), (3, 1), (2, 2), (1, 3)}


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
