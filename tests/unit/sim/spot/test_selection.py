import itertools

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.numerics.experts import UtilityScale
from auctune.sim.spot.selection import (
    CHOICES,
    LEARNERS,
    LearnerName,
    best_sequence,
    heaviest_ever,
    make_learner,
    name_of,
    select,
    share_of_best,
    weight_of,
)

SCALE = UtilityScale(-10.0, 10.0)


def money(num_jobs: int, num_policies: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-10.0, 10.0, (num_jobs, num_policies))


@pytest.mark.parametrize("num_changes", [0, 1, 2, 6])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_sequence_is_that_of_all_sequences(num_changes: int, seed: int) -> None:
    utility = money(6, 3, seed)
    most, path = best_sequence(utility, num_changes)
    for num in range(1, 7):
        best = max(
            sum(utility[k, m] for k, m in enumerate(one))
            for one in itertools.product(range(3), repeat=num)
            if sum(a != b for a, b in itertools.pairwise(one)) <= num_changes
        )
        assert most[num - 1] == pytest.approx(best, abs=1e-12)
    assert sum(a != b for a, b in itertools.pairwise(path)) <= num_changes
    assert utility[np.arange(6), path].sum() == pytest.approx(most[-1], abs=1e-12)


@pytest.mark.parametrize("learner", [name for name in LEARNERS if name != "window"])
@pytest.mark.parametrize("drifts", [False, True])
def test_theorem_2_regret_stays_under_the_bound(learner: LearnerName, drifts: bool) -> None:
    utility = money(200, 7)
    if drifts:
        utility[:100, 2], utility[100:, 5] = 9.0, 9.0
    num_changes = 1 if learner == "share" and drifts else 0
    made = make_learner(learner, 200, num_changes, 50)
    found = select(utility, SCALE, made, "mean", num_changes=num_changes)
    assert np.all(found.regret <= found.bound + 1e-9)
    assert np.allclose(found.weights.sum(axis=1), 1.0)


def test_weights_of_a_job_do_not_know_it() -> None:
    utility = money(20, 4)
    other = utility.copy()
    other[10:] = money(10, 4, seed=9)
    made = make_learner("adaptive", 20, 0, 5)
    first, second = select(utility, SCALE, made, "draw"), select(other, SCALE, made, "draw")
    assert np.array_equal(first.weights[:11], second.weights[:11])
    assert np.array_equal(first.chosen[:11], second.chosen[:11])


def test_what_ran_is_what_is_paid() -> None:
    utility = money(30, 4)
    for choice in CHOICES:
        found = select(utility, SCALE, make_learner("anytime", 30, 0, 5), choice, seed=1)
        if choice == "mean":
            assert np.allclose(found.money, (found.weights[:-1] * utility).sum(axis=1))
        else:
            assert np.array_equal(found.money, utility[np.arange(30), found.chosen])
        if choice == "heaviest":
            assert np.array_equal(found.chosen, found.weights[:-1].argmax(axis=1))


def test_a_drifting_market_is_followed_by_sharing_and_forgetting() -> None:
    utility = np.full((400, 3), 0.0)
    utility[:200, 0], utility[200:, 1] = 5.0, 5.0
    shares = {
        name: share_of_best(
            select(utility, SCALE, make_learner(name, 400, 1, 40), "mean", num_changes=1), utility
        )
        for name in ("known", "share", "window")
    }
    assert shares["known"] is not None
    assert shares["share"] is not None
    assert shares["window"] is not None
    assert shares["share"] > shares["known"] + 0.1
    assert shares["window"] > shares["known"] + 0.1


def test_policies_that_do_the_same_share_a_line() -> None:
    utility = money(30, 3)
    twice = np.column_stack((utility, utility[:, 0]))
    found = select(twice, SCALE, make_learner("known", 30, 0, 5), "draw")
    groups = heaviest_ever(found, twice, 9)
    assert sorted(group.members for group in groups) == [(0, 3), (1,), (2,)]
    names = {name_of(group, ["a", "b", "c", "d"]) for group in groups}
    assert names == {"a and 1 alike", "b", "c"}
    assert np.allclose(sum(weight_of(found, group) for group in groups), 1.0)


def test_a_learner_refuses_what_it_cannot_use() -> None:
    with pytest.raises(InputError, match="num_changes"):
        make_learner("share", 5, 5, 1)
    with pytest.raises(InputError, match="num_rounds"):
        make_learner("window", 5, 0, 0)
