"""The clairvoyant optimum against schedules tried one by one."""

import itertools
import math

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.timeshare import (
    LearningThread,
    LossCurve,
    clairvoyant,
    clairvoyant_optimum,
    true_needs,
)


def all_in_time(threads: list[LearningThread], needs: list[int]) -> bool:
    """Whether the earliest deadline first, unit by unit, does all; needs are whole units."""
    rest = list(needs)
    for time in range(max((thread.deadline for thread in threads), default=0)):
        ready = [k for k, thread in enumerate(threads) if thread.start <= time and rest[k] > 0]
        if ready:
            rest[min(ready, key=lambda k: threads[k].deadline)] -= 1
        if any(rest[k] > 0 and thread.deadline == time + 1 for k, thread in enumerate(threads)):
            return False
    return True


def most(threads: list[LearningThread], needs: list[int]) -> int:
    for size in range(len(threads), 0, -1):
        for chosen in itertools.combinations(range(len(threads)), size):
            if all_in_time([threads[k] for k in chosen], [needs[k] for k in chosen]):
                return size
    return 0


def draw(seed: int, starts: int) -> tuple[list[LearningThread], list[int]]:
    random = np.random.default_rng(seed)
    num = int(random.integers(1, 8))
    threads, needs = [], []
    for k in range(num):
        start = int(random.integers(0, starts + 1))
        threads.append(LearningThread(f"t{k}", start, start + int(random.integers(1, 14)), 0.1))
        needs.append(int(random.integers(1, 8)))
    return threads, needs


@pytest.mark.parametrize("starts", [0, 8])
def test_it_is_the_most_that_any_schedule_does(starts: int) -> None:
    for seed in range(60):
        threads, needs = draw(seed, starts)
        optimum = clairvoyant_optimum(threads, np.array(needs, dtype=np.float64))
        assert optimum.num_done == most(threads, needs), seed
        assert optimum.chosen is not None
        chosen = np.flatnonzero(optimum.chosen)
        assert all_in_time([threads[k] for k in chosen], [needs[k] for k in chosen])


def test_the_bound_of_large_bundles_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clairvoyant, "MOST_EXACT", 0)
    for seed in range(40):
        threads, needs = draw(seed, 8)
        bound = clairvoyant_optimum(threads, np.array(needs, dtype=np.float64))
        assert bound.num_done >= most(threads, needs)


def test_what_is_never_reached_is_not_counted() -> None:
    threads = [LearningThread("a", 0, 5, 0.1), LearningThread("b", 1, 9, 0.1)]
    assert clairvoyant_optimum(threads, np.array([math.inf, 4.0])).num_done == 1
    assert clairvoyant_optimum(threads, np.array([math.inf, math.inf])).num_done == 0


def test_true_needs_are_those_of_the_curves_in_units() -> None:
    curve = LossCurve(np.array([10.0, 20.0]), np.array([1.0, 0.5]))
    threads = [LearningThread("a", 0, 5, 0.7), LearningThread("b", 0, 5, 0.1)]
    assert true_needs(threads, [curve, curve], [4.0, 4.0]).tolist() == [11 / 4, math.inf]
    with pytest.raises(InputError, match="curves"):
        true_needs(threads, [curve], [4.0, 4.0])
    with pytest.raises(InputError, match="batches_per_unit"):
        true_needs(threads, [curve, curve], [4.0, 0.0])


def test_needs_that_are_none_are_named() -> None:
    threads = [LearningThread("a", 0, 5, 0.1)]
    for needs in ([0.0], [math.nan], [1.0, 2.0]):
        with pytest.raises(InputError, match="needs"):
            clairvoyant_optimum(threads, np.array(needs))
