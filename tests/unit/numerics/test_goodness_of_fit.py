"""Figures of what was observed beside those of made-up series."""

import numpy as np

from auctune.numerics.goodness_of_fit import autocorrelation, compare


def test_an_observed_series_is_within_the_middle_of_what_is_made_up_or_not() -> None:
    rows = compare({"a": 50.0, "b": 5.0}, [{"a": seed, "b": seed} for seed in range(101)])
    assert [(row.figure, row.mean, row.low, row.high) for row in rows] == [
        ("a", 50, 10, 90),
        ("b", 50, 10, 90),
    ]
    assert [row.within for row in rows] == [True, False]


def test_autocorrelation_of_series_that_never_change_is_none() -> None:
    assert autocorrelation([np.full(9, 0.3)], np.array([1, 2])).tolist() == [0, 0]


def test_autocorrelation_by_hand() -> None:
    # Centred: 1, -1, 1, -1; neighbours always differ in sign, second neighbours never.
    values = np.array([3.0, 1.0, 3.0, 1.0])
    assert autocorrelation([values, values + 5], np.array([1, 2])).tolist() == [-1, 1]
