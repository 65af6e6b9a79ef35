"""LaiRA's parts against numpy, and what it does on simple bundles."""

import math

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.timeshare import Laira, LearningThread, LossCurve, RoundRobin, SuccessiveHalving, play
from auctune.timeshare.estimators import wls
from auctune.timeshare.laira import kalman_step, log_loss_ahead, lower_bound

NOISE, DRIFT = 0.02, 1e-6
BATCHES = np.arange(10.0, 3001.0, 10.0)


def power_law(exponent: float) -> LossCurve:
    return LossCurve(BATCHES, 3.0 * BATCHES**-exponent)


def test_a_step_of_the_filter_is_kalmans() -> None:
    random = np.random.default_rng(3)
    mean, cov = np.zeros(6), np.diag([10.0, 10.0, 1.0, 1.0, 0.1, 0.1])
    eye, zero = np.eye(2), np.zeros((2, 2))
    forward = np.block([[eye, eye, eye / 2], [zero, eye, eye], [zero, zero, eye]])
    process = np.diag([0.0] * 4 + [DRIFT] * 2)
    expected, spread = mean.copy(), cov.copy()
    for step in range(1, 40):
        x, y = math.log(50.0 * step), math.log(3.0 / step) + 0.1 * random.standard_normal()
        kalman_step(mean, cov, x, y, NOISE, DRIFT)
        row = np.array([x, 1.0, 0.0, 0.0, 0.0, 0.0])
        expected, spread = forward @ expected, forward @ spread @ forward.T + process
        gain = spread @ row / (row @ spread @ row + NOISE)
        expected = expected + gain * (y - row @ expected)
        spread = spread - np.outer(gain, row @ spread)
        assert mean == pytest.approx(expected, rel=1e-7, abs=1e-9)
        assert cov == pytest.approx(spread, rel=1e-7, abs=1e-9)
    ahead = np.linalg.matrix_power(forward, 30) @ expected
    assert log_loss_ahead(mean, 9.0, 30.0) == pytest.approx(ahead[0] * 9.0 + ahead[1])


def test_the_lower_bound_is_that_of_discounted_ridge_least_squares() -> None:
    random = np.random.default_rng(4)
    gamma, ridge = 0.9, 1e-3
    (state,) = wls.fresh_states(ridge, 1)
    v, right = ridge * np.eye(2), np.zeros(2)
    for step in range(1, 30):
        samples, loss = 40.0 * step, 2.0 * step**-0.4 * math.exp(0.1 * random.standard_normal())
        wls.observe(state, gamma, samples, loss)
        row = np.array([math.log(samples), 1.0])
        v = gamma * v + np.outer(row, row)
        right = gamma * right + row * math.log(loss)
        ahead = np.array([math.log(samples + 500.0), 1.0])
        width = math.sqrt(ahead @ np.linalg.solve(v, ahead))
        expected = ahead @ np.linalg.solve(v, right) - 0.3 * width
        assert lower_bound(state, 0.3, ahead[0]) == pytest.approx(expected, rel=1e-5)


def test_look_ahead_leaves_out_what_the_time_left_cannot_reach() -> None:
    threads = [LearningThread("hard", 0, 60, 1e-4)]
    threads += [LearningThread(f"easy{k}", 0, 64 + k, 0.12) for k in range(2)]
    curves, rates = [power_law(0.5)] * 3, [40.0] * 3
    assert play(Laira(), threads, curves, rates).done.tolist() == [False, True, True]


def test_slices_are_of_whole_units_for_one_thread() -> None:
    threads = [LearningThread(name, 0, 90, 0.01) for name in "abc"]
    outcome = play(Laira(units=7), threads, [power_law(0.4)] * 3, [20.0] * 3)
    assert set(outcome.shares.ravel()) == {0.0, 1.0}
    assert (outcome.shares.sum(axis=1) == 1.0).all()
    turns = outcome.shares[:21].argmax(axis=1).tolist()
    assert turns == [0] * 7 + [1] * 7 + [2] * 7


def test_round_robin_takes_turns() -> None:
    threads = [LearningThread(name, 0, 9, 1e-9) for name in "abc"]
    outcome = play(RoundRobin(2), threads, [power_law(0.4)] * 3, [20.0] * 3)
    assert outcome.shares.argmax(axis=1).tolist() == [0, 0, 1, 1, 2, 2, 0, 0, 1]


def test_successive_halving_keeps_the_threads_that_are_nearest_to_their_thresholds() -> None:
    threads = [LearningThread(name, 0, 32, 1e-9) for name in "abcd"]
    curves = [power_law(exponent) for exponent in (0.2, 0.5, 0.3, 0.6)]
    outcome = play(SuccessiveHalving(), threads, curves, [20.0] * 4)
    turns = outcome.shares.argmax(axis=1).tolist()
    assert turns == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4 + [1] * 8 + [3] * 8


@pytest.mark.parametrize(
    ("settings", "place"),
    [({"gamma": 0.0}, "gamma"), ({"noise": 0.0}, "noise"), ({"units": 0}, "units"),
     ({"beta": -1.0}, "beta"), ({"regularization": 0.0}, "regularization")],
)  # fmt: skip
def test_a_wrong_parameter_is_named(settings: dict[str, float], place: str) -> None:
    with pytest.raises(InputError) as raised:
        Laira(**settings)  # type: ignore[arg-type]
    assert raised.value.place == place
