"""Sequences of utilities that are hard on those who learn from them."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from auctune.numerics.experts import Weights

Floats = NDArray[np.float64]
Adversary = Callable[[Floats, int], Floats]


def only(candidate: int, weights: Floats) -> Floats:
    utilities = np.zeros(len(weights))
    utilities[candidate] = 1.0
    return utilities


def against_the_weights(weights: Floats, round_number: int) -> Floats:
    """All for the candidate that is trusted least."""
    return only(int(np.argmin(weights)), weights)


def all_but_the_heaviest(weights: Floats, round_number: int) -> Floats:
    return 1.0 - only(int(np.argmax(weights)), weights)


def by_turns(weights: Floats, round_number: int) -> Floats:
    return only(round_number % len(weights), weights)


def in_blocks(weights: Floats, round_number: int) -> Floats:
    return only((round_number // 50) % len(weights), weights)


def one_is_a_little_better(weights: Floats, round_number: int) -> Floats:
    fair = np.random.default_rng(round_number).integers(0, 2, len(weights)).astype(float)
    fair[-1] = np.random.default_rng(round_number).uniform() < 0.55
    return fair


ADVERSARIES = [
    against_the_weights,
    all_but_the_heaviest,
    by_turns,
    in_blocks,
    one_is_a_little_better,
]


def meet(weights: Weights, adversary: Adversary, num_rounds: int) -> tuple[float, Floats]:
    """The sum of weighted means, and all utilities [k, m]."""
    earned, seen = 0.0, []
    for round_number in range(num_rounds):
        now = weights.weights
        assert now.sum() == pytest.approx(1.0)
        utilities = adversary(now, round_number)
        earned += float(now @ utilities)
        seen.append(utilities)
        weights.update(utilities)
    return earned, np.array(seen)


def best_with_changes(utilities: Floats, num_changes: int) -> float:
    """The most that a sequence of candidates with so many changes earns."""
    best = np.full((num_changes + 1, utilities.shape[1]), -np.inf)
    best[0] = 0.0
    for round_utilities in utilities:
        for changes in range(num_changes, 0, -1):
            best[changes] = np.maximum(best[changes], best[changes - 1].max())
        best += round_utilities
    return float(best.max())
