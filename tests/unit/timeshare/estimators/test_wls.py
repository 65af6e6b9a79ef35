"""The recursive estimator against the direct solution, and its needs against the law."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from auctune.domain import InputError
from auctune.timeshare import Ls, Wls
from auctune.timeshare.estimators import SingleThread
from support.thorough import drawn

Floats = NDArray[np.float64]


def direct(params: Wls, samples: Floats, losses: Floats) -> Floats:
    """The weighted solution with gamma^n V_0, from all observations at once."""
    n = len(samples)
    x = np.stack([np.log(samples), np.ones(n)], axis=1).astype(np.longdouble)
    weight = np.longdouble(params.gamma) ** np.arange(n - 1, -1, -1)
    start = np.longdouble(params.gamma) ** n * params.regularization
    v = (x.T * weight) @ x + start * np.eye(2)
    right = (x.T * weight) @ np.log(losses.astype(np.longdouble))
    det = v[0, 0] * v[1, 1] - v[0, 1] * v[1, 0]
    first = (right[0] * v[1, 1] - v[0, 1] * right[1]) / det
    second = (v[0, 0] * right[1] - v[1, 0] * right[0]) / det
    return np.array([first, second], dtype=np.float64)


def recursion(params: Wls, samples: Floats, losses: Floats) -> Floats:
    """(3.5) as it stands in the paper."""
    inverse = np.eye(2) / params.regularization
    theta = np.zeros(2)
    for s, loss in zip(samples, losses, strict=True):
        x = np.array([math.log(s), 1.0])
        inverse = (
            inverse - np.outer(inverse @ x, x @ inverse) / (params.gamma + x @ inverse @ x)
        ) / params.gamma
        theta = theta + inverse @ x * (math.log(loss) - x @ theta)
    return theta


def theta(params: Wls, samples: Floats, losses: Floats) -> Floats:
    """What a bank of one makes of the same."""
    bank, fresh = params.start_bank(1), np.array([True])
    for s, loss in zip(samples, losses, strict=True):
        bank.observe(np.array([s]), np.array([loss]), fresh)
    (found,) = bank.theta
    return np.asarray(found)


@drawn(150)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    gamma=st.floats(0.5, 1.0),
    regularization=st.floats(1e-4, 10.0),
)
def test_it_equals_the_direct_solution_with_its_start(
    seed: int, n: int, gamma: float, regularization: float
) -> None:
    random = np.random.default_rng(seed)
    samples = np.cumsum(random.integers(1, 50, n)).astype(np.float64)
    losses = 3 * samples**-0.4 * np.exp(0.1 * random.standard_normal(n))
    params = Wls(gamma, regularization)
    expected = direct(params, samples, losses)
    assert np.allclose(theta(params, samples, losses), expected, rtol=1e-7, atol=1e-8)


def test_it_equals_the_papers_recursion_while_that_has_digits() -> None:
    random = np.random.default_rng(5)
    samples = np.cumsum(random.integers(5, 50, 25)).astype(np.float64)
    losses = 2 * samples**-0.5 * np.exp(0.05 * random.standard_normal(25))
    params = Wls(0.9, 0.1)
    expected = recursion(params, samples, losses)
    assert np.allclose(theta(params, samples, losses), expected, rtol=1e-6)


def test_it_keeps_its_digits_late_in_training() -> None:
    samples = np.arange(100.0, 2_000_001.0, 100.0)
    slope, intercept = theta(Wls(), samples, 2.0 * np.power(samples, -0.25))
    assert slope == pytest.approx(-0.25, abs=1e-7)
    assert intercept == pytest.approx(math.log(2), abs=1e-5)


@pytest.mark.parametrize("params", [Wls(), Ls()])
def test_the_need_of_a_power_law_is_that_of_its_formula(params: Wls | Ls) -> None:
    run = SingleThread(params)
    for s in range(100, 20_001, 100):
        run.observe(float(s), 3.0 * s**-0.4)
    need = run.need(0.03)
    assert need.batches == pytest.approx((3.0 / 0.03) ** (1 / 0.4) - 20_000, rel=1e-2)
    assert need.low <= need.batches <= need.high


def test_the_deciles_hold_four_of_five_needs() -> None:
    random = np.random.default_rng(2)
    true, inside = (3.0 / 0.1) ** (1 / 0.4) - 2000, 0
    for _ in range(200):
        run = SingleThread(Ls())
        for s in range(50, 2001, 50):
            run.observe(float(s), 3.0 * s**-0.4 * math.exp(0.05 * random.standard_normal()))
        need = run.need(0.1)
        inside += need.low <= true <= need.high
    assert 140 <= inside <= 195


def test_recent_losses_count_more_with_forgetting() -> None:
    runs = SingleThread(Wls()), SingleThread(Ls())
    for s in range(10, 2001, 10):
        loss = 3.0 * min(s, 1000) ** -0.5
        for run in runs:
            run.observe(float(s), loss)
    plateau, average = (run.need(0.05).batches for run in runs)
    assert plateau > 10 * average


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gamma", 0.0),
        ("gamma", 1.1),
        ("gamma", math.nan),
        ("regularization", 0.0),
    ],
)
def test_wrong_parameters_are_named(key: str, value: float) -> None:
    with pytest.raises(InputError) as raised:
        Wls(**{key: value})
    assert raised.value.place == key
