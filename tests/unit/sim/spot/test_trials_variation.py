"""Jobs of random size."""

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.sim.spot.trials import Variation, parse_variation
from auctune.spot import SpotJob

JOB = SpotJob(workload=80.0, deadline=10, n_max=12, value=160.0)
FIG_9 = ("workload=60-100", "n_min=1,2,4", "n_max=8,12,16")


def test_jobs_are_drawn_from_the_ranges_and_their_value_goes_with_their_work() -> None:
    drawn = parse_variation(FIG_9, "--vary").draw(JOB, 2000, seed=1)
    works = np.array([job.workload for job in drawn])
    assert 60 <= works.min() < 61 < 99 < works.max() <= 100
    assert works.mean() == pytest.approx(80, abs=1)
    pairs = [(job.n_min, job.n_max) for job in drawn]
    for pair in ((n_min, n_max) for n_min in (1, 2, 4) for n_max in (8, 12, 16)):
        assert pairs.count(pair) == pytest.approx(2000 / 9, abs=60)
    assert all(job.value == pytest.approx(2 * job.workload) for job in drawn)
    assert {job.deadline for job in drawn} == {10}


def test_fewer_jobs_are_the_first_of_more_and_differ_by_seed() -> None:
    variation = parse_variation(FIG_9, "--vary")
    assert variation.draw(JOB, 5, seed=1) == variation.draw(JOB, 50, seed=1)[:5]
    assert variation.draw(JOB, 5, seed=1) != variation.draw(JOB, 5, seed=2)


def test_what_is_not_said_is_the_jobs_own() -> None:
    assert Variation().draw(JOB, 2, seed=0) == (JOB, JOB)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("deadline=3-4", "deadline=3-4"),
        ("workload=60", "workload=60"),
        ("workload=100-60", "100-60; expected the less before the more"),
        ("workload=0-60", "workload: 0"),
        ("workload=1-1e300", "workload: 1e+300; expected at most 1000000000"),
        ("n_min=1,two", "n_min=1,two"),
    ],
)
def test_wrong_texts_are_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match="--vary") as refused:
        parse_variation([text], "--vary")
    assert says in str(refused.value)
    with pytest.raises(InputError, match="twice"):
        parse_variation(["n_min=1", "n_min=2"], "--vary")


def test_counts_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(InputError, match="n_max"):
        parse_variation(["n_min=1,10", "n_max=8,16"], "--vary").draw(JOB, 1, seed=0)
