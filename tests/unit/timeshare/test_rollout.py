"""Rollouts: which order is followed, and what is drawn."""

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.timeshare import LearningThread, LossCurve, Rollout, ShortestFirst, play
from auctune.timeshare.rollout import threads_done

BATCHES = np.arange(10.0, 3001.0, 10.0)


def power_law(exponent: float) -> LossCurve:
    return LossCurve(BATCHES, 3.0 * BATCHES**-exponent)


def test_a_thread_that_runs_into_its_deadline_blocks_those_behind_it() -> None:
    needs = np.array([[100.0, 5.0], [8.0, 8.0]])
    slack, end = np.array([20.0, 25.0]), np.empty(2)
    assert threads_done(np.array([0, 1]), needs, slack, end) == 0 + 2
    assert threads_done(np.array([1, 0]), needs, slack, end) == 1 + 2


def test_deadlines_far_apart_are_served_as_they_come() -> None:
    threads = [LearningThread("far", 0, 80, 0.12), LearningThread("near", 0, 40, 0.12)]
    outcome = play(Rollout(), threads, [power_law(0.5)] * 2, [20.0] * 2)
    assert outcome.done.all()
    assert outcome.finish[1] < outcome.finish[0]


def test_a_thread_that_may_block_the_others_waits() -> None:
    """The nearest deadline is of a thread that needs more than all of its time."""
    threads = [LearningThread("blocking", 0, 60, 0.03)]
    threads += [LearningThread(f"easy{k}", 0, 62 + k, 0.12) for k in range(2)]
    curves, rates = [power_law(0.5)] * 3, [30.0] * 3
    assert play(Rollout(), threads, curves, rates).done.tolist() == [False, True, True]
    assert play(ShortestFirst(), threads, curves, rates).num_done == 0


def test_the_whole_pool_trains_one_thread_at_a_time() -> None:
    threads = [LearningThread(name, 0, 90, 0.01) for name in "abc"]
    outcome = play(Rollout(), threads, [power_law(0.4)] * 3, [20.0] * 3)
    assert set(outcome.shares.ravel()) == {0.0, 1.0}
    assert (outcome.shares.sum(axis=1) == 1.0).all()
    # First slices are of five units.
    assert outcome.shares[:15].argmax(axis=1).tolist() == [0] * 5 + [1] * 5 + [2] * 5


def test_the_same_seed_draws_the_same() -> None:
    threads = [LearningThread(f"{k}", 0, 60 + 9 * k, 0.05 + 0.01 * k) for k in range(4)]
    curves, rates = [power_law(0.4 + 0.03 * k) for k in range(4)], [20.0] * 4
    one, two = (play(Rollout(seed=3), threads, curves, rates) for _ in range(2))
    assert np.array_equal(one.shares, two.shares)


@pytest.mark.parametrize(
    ("settings", "place"),
    [({"spread": -1.0}, "spread"), ({"draws": 0}, "draws"), ({"units": 0}, "units"),
     ({"seed": -1}, "seed")],
)  # fmt: skip
def test_a_wrong_parameter_is_named(settings: dict[str, float], place: str) -> None:
    with pytest.raises(InputError) as raised:
        Rollout(**settings)  # type: ignore[arg-type]
    assert raised.value.place == place
