"""What a finished job is worth, and how a late one ends."""

import pytest

from auctune.spot import SpotJob, least_utility, value_at_deadline, value_of_finish

JOB = SpotJob(workload=80, deadline=10, value=100, n_max=16)


@pytest.mark.parametrize(
    ("finish", "value"), [(0.5, 100), (10, 100), (11, 80), (12.5, 50), (15, 0), (15.01, 0), (99, 0)]
)
def test_value_falls_evenly_from_the_soft_to_the_hard_deadline(finish: float, value: float) -> None:
    assert value_of_finish(JOB, finish) == pytest.approx(value)


def test_with_the_hard_deadline_at_the_soft_one_lateness_is_worth_nothing() -> None:
    job = SpotJob(workload=80, deadline=10, value=100, hard_factor=1.0)
    assert value_of_finish(job, 10) == 100
    assert value_of_finish(job, 10.001) == 0


def test_what_is_left_at_the_deadline_runs_on_the_most_on_demand_gpus() -> None:
    # 16 GPUs do 0.9 * 16 = 14.4 in a slot that starts them.
    assert value_at_deadline(JOB, 80) == 100
    assert value_at_deadline(JOB, 85) == 100
    assert value_at_deadline(JOB, 80 - 14.4) == pytest.approx(80 - 16)
    assert value_at_deadline(JOB, 80 - 7.2, on_demand_price=2) == pytest.approx(90 - 16)


def test_an_ending_past_the_hard_deadline_is_still_paid() -> None:
    assert value_at_deadline(JOB, 0) == pytest.approx(0 - 16 * 80 / 14.4)


def test_no_run_is_worse_than_all_gpus_at_the_highest_price_to_the_end() -> None:
    assert least_utility(JOB, 1.25) == pytest.approx(-16 * 1.25 * (10 + 80 / 14.4))
    assert least_utility(JOB, 0.5) == pytest.approx(-16 * (10 + 80 / 14.4))
