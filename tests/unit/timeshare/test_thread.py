"""Threads, curves and shares: what they are, and what they refuse."""

import math

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.timeshare import InfeasibleSharesError, LearningThread, LossCurve, Shares
from auctune.timeshare.thread import bundle_arrays
from support.loss_curves import made_up_curve


@pytest.mark.parametrize(
    ("start", "deadline", "threshold", "place"),
    [
        (-1, 5, 0.1, "start"),
        (3, 3, 0.1, "deadline"),
        (0, 5, 0.0, "threshold"),
        (0, 5, math.nan, "threshold"),
        (0, 5, math.inf, "threshold"),
    ],
)
def test_a_thread_names_what_is_wrong(
    start: int, deadline: int, threshold: float, place: str
) -> None:
    with pytest.raises(InputError) as raised:
        LearningThread("a", start, deadline, threshold)
    assert raised.value.place == place


def test_a_bundle_is_ordered_by_deadline_and_of_equals_the_first_first() -> None:
    threads = [
        LearningThread(name, 0, d, 1.0) for name, d in zip("abcd", (7, 3, 7, 5), strict=True)
    ]
    assert bundle_arrays(threads).order.tolist() == [1, 3, 0, 2]


def test_a_bundle_has_threads_of_different_ids() -> None:
    twice = [LearningThread("a", 0, 3, 1.0), LearningThread("a", 0, 4, 1.0)]
    with pytest.raises(InputError, match=r"threads\[1\]\.id: 'a' is there twice"):
        bundle_arrays(twice)
    with pytest.raises(InputError, match="threads: is empty"):
        bundle_arrays([])


@pytest.mark.parametrize("eta", [[0.7, 0.4], [-0.1, 0.5], [math.nan, 0.1], [[0.5]]])
def test_shares_that_there_are_not_are_refused(eta: list[float]) -> None:
    with pytest.raises(InfeasibleSharesError):
        Shares(np.array(eta))


def test_means_of_a_curve_are_those_of_its_batches() -> None:
    curve = made_up_curve(3, num_batches=60, width=4)
    by_batch = np.repeat(curve.loss, 4)
    for start in range(0, 60, 7):
        for end in range(start + 1, 61, 5):
            assert curve.mean(start, end) == pytest.approx(by_batch[start:end].mean())
    assert curve.mean(60, 75) == pytest.approx(curve.loss[-1])


def test_the_need_of_a_curve_is_the_first_batch_that_may_show_the_threshold() -> None:
    curve = LossCurve(np.array([10.0, 20.0, 30.0]), np.array([3.0, 1.0, 2.0]))
    assert curve.need(3.0) == 1
    assert curve.need(1.5) == 11
    assert curve.need(0.5) == math.inf
    assert curve.mean(10, 11) <= 1.5 < curve.mean(9, 11)


@pytest.mark.parametrize(
    ("batches", "loss", "place"),
    [
        ([], [], "batches"),
        ([1.0, 2.0], [1.0], "batches"),
        ([1.0, 1.0], [1.0, 1.0], "batches[1]"),
        ([0.5], [1.0], "batches[0]"),
        ([1.0, 2.0], [1.0, math.nan], "loss[1]"),
    ],
)
def test_a_curve_names_what_is_wrong(batches: list[float], loss: list[float], place: str) -> None:
    with pytest.raises(InputError) as raised:
        LossCurve(np.array(batches), np.array(loss))
    assert raised.value.place == place
