"""Exploration and corrections case by case."""

import math
from typing import Any

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.timeshare import (
    Exploration,
    LearningThread,
    Observation,
    Thompson,
    Ucb,
)
from auctune.timeshare.estimators import Needs

THREADS = [LearningThread(name, 0, 100, 0.1) for name in "abcd"]
ALL = np.ones(4, dtype=np.bool_)


def seen(time: int = 10, **arrays: Any) -> Observation:
    given: dict[str, Any] = {
        "samples": np.array([0.0, 50.0, 100.0, 500.0]),
        "batches_per_unit": np.full(4, 10.0),
        "loss": np.full(4, 0.5),
        "fresh": ALL,
        "done": ~ALL,
        "received": np.array([0.0, 5.0, 10.0, 50.0]),
        **arrays,
    }
    return Observation(time=time, **given)


def needs(*batches: float) -> Needs:
    said = np.array(batches)
    return Needs(said, said / 2, said * 2)


def test_threads_up_to_the_threshold_are_explored() -> None:
    run = Exploration(batches=100.0).start(THREADS)
    assert run.explored(seen(), ALL).tolist() == [True, True, True, False]
    assert run.explored(seen(), ~ALL).tolist() == [False] * 4


def test_a_share_of_the_time_explores_equal_batches_or_equal_time() -> None:
    # 0.2 of 100 units for 4 threads: 66 batches of each, in 6.67 and 3.33 units, 20 together.
    rates = np.array([10.0, 10.0, 20.0, 20.0])
    observation = seen(batches_per_unit=rates, samples=np.array([66.0, 67.0, 66.0, 67.0]))
    explored = Exploration(share=0.2).start(THREADS).explored(observation, ALL)
    assert explored.tolist() == [True, False, True, False]
    # Or 5 units each, of 10 or 20 batches.
    observation = seen(batches_per_unit=rates, samples=np.array([50.0, 51.0, 100.0, 101.0]))
    explored = Exploration(share=0.2, unit="time").start(THREADS).explored(observation, ALL)
    assert explored.tolist() == [True, False, True, False]


def test_exploring_leaves_needs_as_they_are() -> None:
    said = needs(5.0, math.inf, 3.0, 1.0)
    assert Exploration().start(THREADS).corrected(seen(), said) is said.batches


def test_optimism_is_remark_2_where_it_is_defined() -> None:
    run = Ucb(beta=10.0).start(THREADS)
    corrected = run.corrected(seen(), needs(100.0, 100.0, 5.0, math.inf))
    bonus = 10.0 * math.sqrt(math.log(10) / 5)
    assert corrected.tolist() == [100.0, pytest.approx(100 - bonus), 1.0, math.inf]


def test_before_a_unit_has_passed_there_is_no_bonus() -> None:
    late = [LearningThread(name, 10, 100, 0.1) for name in "abcd"]
    run = Ucb(beta=10.0).start(late)
    assert run.corrected(seen(time=10), needs(9.0, 9.0, 9.0, 9.0)).tolist() == [9.0] * 4


@pytest.mark.parametrize("params", [Ucb(), Thompson()])
def test_who_learned_nothing_is_explored_first(params: Ucb | Thompson) -> None:
    assert params.start(THREADS).explored(seen(), ALL).tolist() == [True, False, False, False]


def test_draws_have_the_deciles_that_were_said() -> None:
    run = Thompson(3).start(THREADS)
    said = Needs(np.full(4, 1000.0), np.full(4, 400.0), np.full(4, 9000.0))
    drawn = np.array([run.corrected(seen(time=t), said) for t in range(2000)]).ravel()
    assert np.mean(drawn <= 400) == pytest.approx(0.1, abs=0.015)
    assert np.mean(drawn <= 1000) == pytest.approx(0.5, abs=0.025)
    assert np.mean(drawn <= 9000) == pytest.approx(0.9, abs=0.015)


def test_a_draw_is_the_same_whenever_it_is_made() -> None:
    said = needs(10.0, 20.0, 30.0, 40.0)
    run, other = Thompson(3).start(THREADS), Thompson(3).start(THREADS)
    other.corrected(seen(time=4), said)
    drawn = [one.corrected(seen(time=5), said).tolist() for one in (run, other)]
    assert drawn[0] == drawn[1]


def test_what_is_out_of_reach_is_drawn_in_reach_one_time_in_six_at_most() -> None:
    run = Thompson().start(THREADS)
    said = Needs(np.full(4, math.inf), np.array([50.0, 0.0, math.inf, 50.0]), np.full(4, math.inf))
    drawn = np.array([run.corrected(seen(time=t), said) for t in range(500)])
    assert 0.05 < np.mean(drawn[:, 0] == 50) < 0.16
    assert set(drawn[:, 1]) == {1.0, math.inf}
    assert set(drawn[:, 2]) == {math.inf}


def test_infinite_deciles_are_drawn_without_overflow() -> None:
    run = Thompson().start(THREADS)
    said = Needs(np.full(4, 10.0), np.ones(4), np.full(4, math.inf))
    for time in range(50):
        drawn = run.corrected(seen(time=time), said)
        assert (drawn >= 1).all()
        assert not np.isnan(drawn).any()


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: Exploration(batches=-1.0), "batches"),
        (lambda: Exploration(share=1.5), "share"),
        (lambda: Ucb(math.nan), "beta"),
        (lambda: Thompson(-1), "seed"),
    ],
)
def test_wrong_parameters_are_named(make: Any, place: str) -> None:
    with pytest.raises(InputError) as raised:
        make()
    assert raised.value.place == place
