"""AdaHedge: its bounds against adversaries, and what it is for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.numerics.experts import AdaptiveGradient, ExponentiatedGradient, KnownRounds
from support.adversaries import ADVERSARIES, Adversary, Floats, meet
from support.thorough import drawn


def worst_regret(num_candidates: int, num_rounds: int) -> float:
    """Bound on the regret for any utilities in a range of width 1 (de Rooij et al., 2014)."""
    ln = math.log(num_candidates)
    return 0.0 if ln == 0.0 else math.sqrt(num_rounds * ln) + 4.0 / 3.0 * ln + 2.0


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("num_candidates", [1, 2, 10, 112])
def test_regret_is_under_both_bounds_after_every_round(
    adversary: Adversary, num_candidates: int
) -> None:
    weights = AdaptiveGradient(num_candidates)
    total, earned = np.zeros(num_candidates), 0.0
    for round_number in range(400):
        now = weights.weights
        utilities = adversary(now, round_number)
        weights.update(utilities)
        total += utilities
        earned += float(now @ utilities)
        regret = total.max() - earned
        assert regret <= weights.regret_bound() + 1e-9
        assert weights.regret_bound() <= worst_regret(num_candidates, round_number + 1) + 1e-9


@given(st.integers(2, 6), st.integers(1, 80), st.integers(0, 2**32 - 1))
@drawn(100)
def test_utilities_in_a_narrow_range_are_learned_with_as_little_regret(
    num_candidates: int, num_rounds: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    utilities = 0.6 + 0.02 * random.beta(0.3, 0.3, (num_rounds, num_candidates))
    weights = AdaptiveGradient(num_candidates)
    earned, _ = meet(weights, lambda _, k: utilities[k], num_rounds)
    assert utilities.sum(axis=0).max() - earned <= weights.regret_bound() + 1e-9
    assert weights.regret_bound() <= 0.02 * worst_regret(num_candidates, num_rounds) + 1e-9


def test_small_differences_are_learned_where_a_fixed_rate_has_hardly_begun() -> None:
    def a_little_better(_: Floats, round_number: int) -> Floats:
        random = np.random.default_rng(round_number)
        utilities = 0.7 + 0.01 * random.uniform(-1, 1, 20)
        utilities[3] += 0.005
        return utilities

    adaptive = AdaptiveGradient(20)
    fixed = ExponentiatedGradient(20, KnownRounds(500))
    meet(adaptive, a_little_better, 500)
    meet(fixed, a_little_better, 500)
    assert adaptive.weights[3] > 0.99
    assert fixed.weights[3] < 0.1


def test_until_someone_falls_behind_all_leaders_weigh_the_same() -> None:
    weights = AdaptiveGradient(3)
    assert weights.weights.tolist() == pytest.approx([1 / 3] * 3)
    weights.update(np.array([0.5, 0.5, 0.5]))
    assert weights.weights.tolist() == pytest.approx([1 / 3] * 3)
    assert weights.regret_bound() == 0.0


def test_the_first_rate_follows_from_the_first_gap() -> None:
    weights = AdaptiveGradient(2)
    weights.update(np.array([1.0, 0.0]))
    # The mix of an infinite rate is the best, 1; the mean was 1/2.
    odds = weights.weights[0] / weights.weights[1]
    assert math.log(odds) == pytest.approx(math.log(2) / 0.5)


def test_wrong_utilities_are_refused_and_change_nothing() -> None:
    weights = AdaptiveGradient(2)
    with pytest.raises(InputError, match="utilities"):
        weights.update(np.array([0.5, 1.5]))
    assert weights.weights.tolist() == [0.5, 0.5]
    with pytest.raises(InputError, match="num_candidates"):
        AdaptiveGradient(0)
