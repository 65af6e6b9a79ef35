import math
from fractions import Fraction

import pytest

from auctune.domain import InputError
from auctune.spot import InstanceStart, LinearScaling, Overhead, SpotJob, TableScaling


def test_a_job_that_names_no_value_is_worth_one_and_a_half_of_its_work() -> None:
    assert SpotJob(workload=80, deadline=10).value == 120
    assert SpotJob(workload=80, deadline=10, value=0.0).value == 0


def test_no_gpus_do_no_work_whatever_the_scaling() -> None:
    assert LinearScaling(1.0, 0.5).throughput(0) == 0
    assert TableScaling((2.0, 3.0)).throughput(0) == 0


def test_throughput_is_exact_in_decimals() -> None:
    assert LinearScaling(0.1, 0.2).throughput(3) == Fraction(1, 2)
    assert TableScaling((0.9, 1.7)).throughput(2) == Fraction(17, 10)


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        ("workload", {"workload": 0.0}),
        ("workload", {"workload": math.nan}),
        ("deadline", {"deadline": 0}),
        ("hard_factor", {"hard_factor": 0.9}),
        ("value", {"value": -1.0}),
        ("n_min", {"n_min": 0}),
        ("n_max", {"n_min": 4, "n_max": 3}),
        ("scaling", {"n_max": 3, "scaling": TableScaling((1.0, 2.0))}),
    ],
)
def test_wrong_fields_are_refused_by_name(place: str, fields: dict[str, object]) -> None:
    with pytest.raises(InputError, match=f"^{place}"):
        SpotJob(**{"workload": 8.0, "deadline": 2, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [{"n_min": 2}, {"scaling": LinearScaling(0.5, 0.5)}, {"scaling": TableScaling((1.0, 1.9))}],
)
def test_starts_that_go_on_need_one_gpu_alone_and_proportional_work(
    fields: dict[str, object],
) -> None:
    job = {"workload": 8.0, "deadline": 2, "n_max": 2, **fields}
    SpotJob(**job, overhead=InstanceStart(1.0))  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match=r"^overhead: a start of 1\.2 slots; expected at most 1, or"
    ):
        SpotJob(**job, overhead=InstanceStart(1.2))  # type: ignore[arg-type]


def test_starts_that_go_on_do_where_nothing_depends_on_other_slots() -> None:
    for fields in ({"n_max": 1}, {"scaling": TableScaling((2.0, 4.0)), "n_max": 2}):
        SpotJob(workload=8, deadline=2, overhead=InstanceStart(1.2), **fields)


@pytest.mark.parametrize("table", [(), (1.0, 0.9), (1.0, 1.5, 2.5), (0.0, 1.0)])
def test_a_table_that_falls_or_bends_upwards_is_refused(table: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="table"):
        TableScaling(table)


def test_a_line_that_gives_one_gpu_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"^c"):
        LinearScaling(1.0, -1.0)


@pytest.mark.parametrize(("mu1", "mu2"), [(0.0, 0.5), (0.9, 0.8), (0.9, 1.1)])
def test_shares_out_of_order_are_refused(mu1: float, mu2: float) -> None:
    with pytest.raises(InputError, match="mu"):
        Overhead(mu1, mu2)
