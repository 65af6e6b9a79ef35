"""Algorithm 3, case by case."""

import pytest

from auctune.domain import InputError
from auctune.spot import Ahanp, SpotAllocation, SpotJob, SpotObservation
from support.spot_seen import seen

JOB = SpotJob(workload=80, deadline=10, n_min=2, n_max=12)
AHEAD, BEHIND = 8.0, 7.9  # Z_exp(1) = 8
HELD = SpotAllocation(2, 7)


@pytest.mark.parametrize(
    ("observation", "held"),
    [
        pytest.param(
            seen(progress=AHEAD, available=0, available_before=0, last=HELD), (0, 0), id="none left"
        ),
        pytest.param(
            seen(progress=AHEAD, available=4, available_before=8, last=HELD),
            (1, 4),
            id="collapse: half of 9, rounded half up",
        ),
        pytest.param(
            seen(progress=AHEAD, available=1, available_before=8, last=SpotAllocation(0, 3)),
            (1, 1),
            id="collapse: not under N_min",
        ),
        pytest.param(
            seen(progress=AHEAD, available=5, available_before=8, price=0.7, last=HELD),
            (4, 5),
            id="dear: as many as before, spot first",
        ),
        pytest.param(
            seen(progress=AHEAD, available=16, price=0.6, last=HELD), (0, 12), id="cheap: all spot"
        ),
        pytest.param(
            seen(progress=AHEAD, available=1, available_before=1, price=0.6, last=HELD),
            (0, 0),
            id="cheap, but under N_min",
        ),
        pytest.param(
            seen(progress=AHEAD, available=1, available_before=0, price=0.6, last=HELD),
            (0, 0),
            id="no fall from nothing",
        ),
        pytest.param(
            seen(progress=BEHIND, available=0, last=SpotAllocation(0, 5)), (10, 0), id="doubled"
        ),
        pytest.param(
            seen(progress=BEHIND, available=8, last=SpotAllocation(0, 8)),
            (4, 8),
            id="doubled up to N_max",
        ),
        pytest.param(seen(progress=BEHIND, available=1), (1, 1), id="doubled from nothing: N_min"),
        pytest.param(
            seen(0, available=5, available_before=16, price=0.6), (0, 5), id="slot 0 knows no fall"
        ),
    ],
)
def test_the_first_case_that_holds_decides(
    observation: SpotObservation, held: tuple[int, int]
) -> None:
    assert Ahanp(0.6).start(JOB).allocate(observation) == SpotAllocation(*held)


def test_the_threshold_is_in_units_of_the_on_demand_price() -> None:
    observation = seen(progress=AHEAD, price=1.7, on_demand_price=3.0, last=HELD, available=10)
    assert Ahanp(0.6).start(JOB).allocate(observation) == SpotAllocation(0, 10)
    assert Ahanp(0.5).start(JOB).allocate(observation) == SpotAllocation(0, 9)


def test_the_paper_s_unnamed_constants_are_parameters() -> None:
    run = Ahanp(0.6, drop=0.25, shrink=0.75, growth=3.0).start(JOB)
    half = seen(progress=AHEAD, available=4, price=0.9, last=SpotAllocation(0, 8))
    assert run.allocate(half) == SpotAllocation(4, 4)
    quarter = seen(progress=AHEAD, available=2, price=0.9, last=SpotAllocation(0, 8))
    assert run.allocate(quarter) == SpotAllocation(4, 2)
    assert run.allocate(seen(last=SpotAllocation(3, 0), available=0)) == SpotAllocation(9, 0)


@pytest.mark.parametrize(
    ("place", "values"),
    [
        ("sigma", {"sigma": 0.0}),
        ("drop", {"drop": -0.1}),
        ("shrink", {"shrink": 1.5}),
        ("growth", {"growth": 0.5}),
    ],
)
def test_wrong_parameters_are_refused_by_name(place: str, values: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"^{place}"):
        Ahanp(**values)  # type: ignore[arg-type]
