"""Bounds on regret, against adversaries too, and what weights are."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.numerics.experts import (
    Anytime,
    ExponentiatedGradient,
    FixedShare,
    KnownRounds,
    SlidingWindow,
    UtilityScale,
    Weights,
    draw,
    heaviest,
)
from support.adversaries import ADVERSARIES, Adversary, best_with_changes, in_blocks, meet
from support.thorough import drawn


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("num_candidates", [1, 2, 10, 112])
@pytest.mark.parametrize("num_rounds", [1, 7, 400])
def test_theorem_2_regret_with_known_rounds_is_under_the_root_of_2_k_ln_m(
    adversary: Adversary, num_candidates: int, num_rounds: int
) -> None:
    weights = ExponentiatedGradient(num_candidates, KnownRounds(num_rounds))
    earned, utilities = meet(weights, adversary, num_rounds)
    bound = math.sqrt(2 * num_rounds * math.log(num_candidates))
    assert weights.regret_bound() == pytest.approx(bound)
    assert utilities.sum(axis=0).max() - earned <= bound + 1e-9


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("num_candidates", [1, 2, 10, 112])
def test_anytime_regret_is_under_its_bound_after_every_round(
    adversary: Adversary, num_candidates: int
) -> None:
    weights = ExponentiatedGradient(num_candidates, Anytime())
    total, earned = np.zeros(num_candidates), 0.0
    for round_number in range(400):
        now = weights.weights
        utilities = adversary(now, round_number)
        weights.update(utilities)
        total += utilities
        earned += float(now @ utilities)
        bound = math.sqrt((round_number + 1) * math.log(num_candidates))
        assert weights.regret_bound() == pytest.approx(bound)
        assert total.max() - earned <= bound + 1e-9


@given(st.integers(2, 6), st.integers(1, 60), st.integers(0, 2**32 - 1))
@drawn(100)
def test_any_utilities_keep_both_bounds(num_candidates: int, num_rounds: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    utilities = random.beta(0.3, 0.3, (num_rounds, num_candidates))
    for rate in (KnownRounds(num_rounds), Anytime()):
        weights = ExponentiatedGradient(num_candidates, rate)
        earned, _ = meet(weights, lambda _, k: utilities[k], num_rounds)
        assert utilities.sum(axis=0).max() - earned <= weights.regret_bound() + 1e-9


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("num_changes", [0, 1, 3, 7])
def test_fixed_share_keeps_its_bound_against_the_best_sequence_with_changes(
    adversary: Adversary, num_changes: int
) -> None:
    num_rounds, num_candidates = 400, 10
    weights = FixedShare.tuned(num_candidates, num_rounds, num_changes)
    earned, utilities = meet(weights, adversary, num_rounds)
    regret = best_with_changes(utilities, num_changes) - earned
    assert regret <= weights.regret_bound(num_rounds, num_changes) + 1e-9


def test_where_the_best_changes_sharing_and_forgetting_earn_more_than_the_sum_of_all() -> None:
    num_rounds = 400
    sharing, _ = meet(FixedShare.tuned(4, num_rounds, 7), in_blocks, num_rounds)
    forgetting, _ = meet(SlidingWindow(4, 1.0, 20), in_blocks, num_rounds)
    keeping, _ = meet(ExponentiatedGradient(4, KnownRounds(num_rounds)), in_blocks, num_rounds)
    assert sharing > 2 * keeping
    assert forgetting > 2 * keeping


def test_anytime_weights_are_those_of_the_rate_of_their_round() -> None:
    weights = ExponentiatedGradient(2, Anytime())
    for round_number in range(1, 6):
        weights.update(np.array([1.0, 0.0]))
        odds = weights.weights[0] / weights.weights[1]
        eta = 2 * math.sqrt(math.log(2) / (round_number + 1))
        assert math.log(odds) == pytest.approx(eta * round_number)


def test_weights_grow_with_utility_as_the_paper_says() -> None:
    weights = ExponentiatedGradient(3, KnownRounds(8))
    eta = math.sqrt(2 * math.log(3) / 8)
    expected = np.ones(3) / 3
    for utilities in ([0.0, 0.5, 1.0], [1.0, 0.0, 0.25]):
        weights.update(np.array(utilities))
        expected = expected * np.exp(eta * np.array(utilities))
        expected /= expected.sum()
    assert weights.weights == pytest.approx(expected)


@pytest.mark.slow
def test_a_hundred_thousand_rounds_neither_overflow_nor_lose_the_sum() -> None:
    weights = FixedShare(2, 5.0, 0.01)
    alone = ExponentiatedGradient(2, KnownRounds(10))
    for _ in range(100_000):
        weights.update(np.array([1.0, 0.0]))
        alone.update(np.array([1.0, 0.0]))
    assert weights.weights.sum() == pytest.approx(1.0)
    assert weights.weights[1] == pytest.approx(0.005, rel=0.05)
    assert alone.weights.tolist() == [1.0, 0.0]


def test_a_share_keeps_everyone_alive() -> None:
    weights = FixedShare(4, 1.0, 0.2)
    for _ in range(50):
        weights.update(np.array([1.0, 0.0, 0.0, 0.0]))
    assert weights.weights.min() >= 0.2 / 4


def test_a_window_forgets() -> None:
    weights = SlidingWindow(2, 3.0, 2)
    weights.update(np.array([1.0, 0.0]))
    weights.update(np.array([0.0, 0.0]))
    assert weights.weights[0] > 0.9
    weights.update(np.array([0.0, 0.0]))
    assert weights.weights.tolist() == [0.5, 0.5]


def test_draws_follow_the_weights() -> None:
    random = np.random.default_rng(0)
    drawn = [draw(np.array([0.5, 0.0, 0.3, 0.2]), random) for _ in range(4000)]
    shares = np.bincount(drawn, minlength=4) / 4000
    assert shares == pytest.approx([0.5, 0.0, 0.3, 0.2], abs=0.03)
    assert shares[1] == 0


def test_the_heaviest_of_equals_is_the_first() -> None:
    assert heaviest(np.array([0.2, 0.4, 0.4])) == 1


def test_money_is_scaled_by_its_bounds() -> None:
    assert UtilityScale(-50.0, 150.0).scaled(np.array([-50.0, 0.0, 150.0])).tolist() == [0, 0.25, 1]


@pytest.mark.parametrize("utilities", [[0.5], [0.5, 1.1], [-0.1, 0.5], [math.nan, 0.5]])
def test_wrong_utilities_are_refused_and_change_nothing(utilities: list[float]) -> None:
    everyone: list[Weights] = [
        ExponentiatedGradient(2, Anytime()),
        FixedShare(2, 1.0, 0.1),
        SlidingWindow(2, 1.0, 3),
    ]
    for weights in everyone:
        with pytest.raises(InputError, match="utilities"):
            weights.update(np.array(utilities))
        assert weights.weights.tolist() == pytest.approx([0.5, 0.5])


def test_wrong_parameters_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="num_rounds"):
        KnownRounds(0)
    with pytest.raises(InputError, match="num_candidates"):
        ExponentiatedGradient(0, Anytime())
    with pytest.raises(InputError, match="share"):
        FixedShare(2, 1.0, 1.0)
    with pytest.raises(InputError, match="eta"):
        SlidingWindow(2, 0.0, 1)
    with pytest.raises(InputError, match="length"):
        SlidingWindow(2, 1.0, 0)
    with pytest.raises(InputError, match="num_changes"):
        FixedShare.tuned(2, 10, 10)
    with pytest.raises(InputError, match="most"):
        UtilityScale(1.0, 1.0)
