"""Exploration and corrections case by case."""

import math
from typing import Any

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.timeshare import (
    Exploration,
    HybridEdf,
    LearningThread,
    Observation,
    OptimisticFilter,
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


def test_a_share_of_the_time_is_a_threshold_in_batches_of_each() -> None:
    # 0.2 of 100 units for 4 threads: 5 units of 10 or 20 batches.
    run = Exploration(share=0.2).start(THREADS)
    rates = np.array([10.0, 10.0, 20.0, 20.0])
    explored = run.explored(seen(batches_per_unit=rates), ALL)
    assert explored.tolist() == [True, True, True, False]


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


def test_doubt_is_read_in_favour_of_the_thread() -> None:
    run = OptimisticFilter(units=2, doubt=4.0, near=2.0).start(THREADS)
    # 90 units of 10 batches are left.
    said = Needs(
        np.array([800.0, 2000.0, 9000.0, math.inf]),
        np.array([100.0, 1500.0, 4000.0, 2600.0]),
        np.full(4, math.inf),
    )
    run.explored(seen(), ALL)
    assert run.corrected(seen(), said).tolist() == [1.0] * 4
    run.explored(seen(), ALL)
    # A low decile may be three times the time left.
    assert run.corrected(seen(), said).tolist() == [800.0, 900.0, math.inf, 900.0]
    for _ in range(38):
        run.explored(seen(), ALL)
    assert run.corrected(seen(), said).tolist() == [800.0, math.inf, math.inf, math.inf]


def test_unknown_threads_need_half_an_even_part_while_deadlines_are_close() -> None:
    close = [
        LearningThread(name, 0, due, 0.1)
        for name, due in zip("abcd", (60, 60, 100, 110), strict=True)
    ]
    said = Needs(np.full(4, 7.0), np.full(4, 1.0), np.full(4, 9.0))
    run = OptimisticFilter(units=2).start(close)
    # At time 10, 50 to 100 units are left: 25 of 10 batches for each, half of it less those had.
    assert run.corrected(seen(), said).tolist() == [125.0, 75.0, 25.0, 1.0]
    # Who is done takes no part.
    one_done = seen(done=np.array([False, False, False, True]))
    assert run.corrected(one_done, said).tolist() == [150.0, 100.0, 50.0, 1.0]
    # At 11 the nearest has less than half of the farthest's time.
    assert run.corrected(seen(time=11), said).tolist() == [1.0] * 4


def test_an_unknown_thread_needs_no_more_than_its_time() -> None:
    two = [LearningThread("a", 0, 20, 0.1), LearningThread("b", 0, 40, 0.1)]
    said = Needs(np.full(2, 7.0), np.full(2, 1.0), np.full(2, 9.0))
    asked = Observation(
        time=18,
        samples=np.zeros(2),
        batches_per_unit=np.full(2, 10.0),
        loss=np.full(2, 0.5),
        fresh=np.zeros(2, dtype=np.bool_),
        done=np.zeros(2, dtype=np.bool_),
        received=np.zeros(2),
    )
    assert OptimisticFilter(near=0.0).start(two).corrected(asked, said).tolist() == [20.0, 55.0]


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: Exploration(batches=-1.0), "batches"),
        (lambda: Exploration(share=1.5), "share"),
        (lambda: Ucb(math.nan), "beta"),
        (lambda: Thompson(-1), "seed"),
        (lambda: OptimisticFilter(units=0), "units"),
        (lambda: OptimisticFilter(doubt=-1.0), "doubt"),
        (lambda: OptimisticFilter(near=-1.0), "near"),
        (lambda: HybridEdf(near=math.nan), "near"),
    ],
)
def test_wrong_parameters_are_named(make: Any, place: str) -> None:
    with pytest.raises(InputError) as raised:
        make()
    assert raised.value.place == place
