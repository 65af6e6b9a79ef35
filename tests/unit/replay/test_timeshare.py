"""Jobs of a pool under another allocator, over their recorded losses."""

import numpy as np
import pytest

from auctune.replay.timeshare import (
    PastJob,
    RecordedJob,
    outcome_under,
    past_jobs,
    recorded_outcome,
)
from auctune.timeshare import MOORE_HODGSON, LearningThread, LossCurve, Planner, Uniform, play
from auctune.timeshare.allocator import Allocator
from auctune.timeshare.balancing import Exploration
from auctune.timeshare.estimators.wls import Wls

LARA = Planner(Wls(), Exploration(None, 0.1), MOORE_HODGSON)


def thread(
    losses: list[float], target: float = 0.5, *, done: bool = False, capped: bool = False
) -> PastJob:
    return PastJob(
        learning=LearningThread("a", 0, 40, target),
        batches=tuple(5 * (n + 1) for n in range(len(losses))),
        losses=tuple(losses),
        rate=5.0,
        counts=True,
        is_done=done,
        is_capped=capped,
    )


def recorded(allocator: Allocator) -> list[PastJob]:
    """Return what a log would have of a pool of six jobs, some of which reach their targets."""
    rng = np.random.default_rng(4)
    curves, learning = [], []
    for k in range(6):
        batches = np.arange(5.0, 605.0, 5.0)
        curves.append(LossCurve(batches, 3.0 * batches ** -rng.uniform(0.2, 0.7)))
        learning.append(LearningThread(f"t{k}", k, 30 + 5 * k, 0.5))
    outcome = play(allocator, learning, curves, [10.0] * 6)
    found = []
    for k, one in enumerate(learning):
        fresh = np.isfinite(outcome.losses[:, k])
        means = outcome.losses[fresh, k]
        # The unit's whole batches, by the rule of the pool.
        ends = np.floor(np.cumsum(outcome.shares[:, k]) * 10.0 + 1e-9)[fresh].astype(int)
        done = bool(outcome.done[k])
        found.append(
            PastJob(one, tuple(ends.tolist()), tuple(means.tolist()), 10.0, True, done, False)
        )
    return found


@pytest.mark.parametrize("allocator", [Uniform(), LARA], ids=["uniform", "lara"])
def test_the_recorded_allocator_has_the_recorded_outcome(allocator: Allocator) -> None:
    threads = recorded(allocator)
    before = recorded_outcome(threads, 1.0)
    assert 0 < before.num_done < before.num_jobs == 6
    again = outcome_under(threads, allocator, 1.0)
    assert again.num_done - again.num_forecast == before.num_done
    assert again.units >= before.units - 1e-9


def test_a_curve_continues_to_where_its_target_is_forecast() -> None:
    losses = [3.0 * (5.0 * (n + 1)) ** -0.5 for n in range(6)]
    curve = thread(losses, target=0.3).curve()
    assert curve.loss[:6].tolist() == losses
    # 3 s^-0.5 = 0.3 at s = 100.
    assert curve.loss[-1] == 0.3
    assert 80 < curve.num_batches < 120
    assert (np.diff(curve.loss) < 0).all()


def test_the_curve_of_a_job_that_is_done_or_capped_ends_with_its_record() -> None:
    losses = [1.0, 0.8, 0.7, 0.6]
    assert thread([*losses, 0.4], done=True).curve().num_batches == 25
    assert thread(losses, capped=True).curve().num_batches == 20
    # Losses that do not fall have no forecast.
    assert thread([1.0, 1.1, 1.2, 1.3]).curve().num_batches == 20


def test_a_job_that_does_not_count_takes_its_share_of_the_pool() -> None:
    losses = [2.0, 1.0, 0.6, 0.4]
    own = thread(losses, done=True)
    others = [
        PastJob(LearningThread(f"other{k}", 0, 40, 1e-6), (5,), (1.0,), 5.0, False, False, True)
        for k in range(12)
    ]
    alone, crowded = (
        outcome_under([own], Uniform(), 1.0),
        outcome_under([own, *others], Uniform(), 1.0),
    )
    assert (alone.num_jobs, alone.num_done) == (1, 1)
    assert (crowded.num_jobs, crowded.num_done) == (1, 0)


@pytest.mark.parametrize(("unit_seconds", "rate"), [(None, 7.0), (2.0, 20.0)])
def test_a_rate_is_what_was_measured_unless_units_are_counted(
    unit_seconds: float | None, rate: float
) -> None:
    job = RecordedJob("a", 0.5, 9, start=0, rate=7.0, batches=[5], losses=[1.0])
    job.num_batches, job.seconds = 5, 0.5
    (found,) = past_jobs([job], unit_seconds, newest=4)
    assert found.rate == rate
