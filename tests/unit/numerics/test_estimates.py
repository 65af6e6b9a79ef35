"""Means and ratios with intervals, against scipy."""

import numpy as np
import pytest
from scipy import stats

from auctune.numerics.estimates import Estimate, mean_of, ratio_of
from auctune.numerics.rng import stream

VALUES = [0.91, 0.88, 0.95, 0.90, 0.93]


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_of_a_mean_is_scipys(confidence: float) -> None:
    found = mean_of(VALUES, confidence)
    low, high = stats.t.interval(confidence, 4, loc=np.mean(VALUES), scale=stats.sem(VALUES))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_one_value_has_no_interval_and_none_is_refused() -> None:
    assert mean_of([2.0]).half_width is None
    assert mean_of([2.0]).low == mean_of([2.0]).high == 2
    with pytest.raises(ValueError, match="no values"):
        mean_of([])


def test_an_estimate_is_written_with_half_its_width() -> None:
    assert Estimate(0.1234, 0.05).text("+.1f", 100) == "+12.3 ±5.0"
    assert Estimate(0.1234, 0.05).text(".1%") == "12.3% ±5.0"
    assert Estimate(1.5, None).text(".2f") == "1.50"


def test_a_ratio_to_a_constant_is_the_mean_scaled() -> None:
    ratio, mean = ratio_of(np.array(VALUES), np.full(5, 0.5)), mean_of(VALUES)
    assert ratio is not None
    assert ratio.half_width is not None
    assert mean.half_width is not None
    assert (ratio.value, ratio.half_width) == pytest.approx((2 * mean.value, 2 * mean.half_width))


def test_the_interval_of_a_ratio_covers_it_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(400):
        rng = stream(seed, "ratios")
        below = rng.uniform(0.5, 1.5, 30)
        found = ratio_of(below * rng.uniform(0.6, 1.0, 30), below)
        assert found is not None
        covered += found.low <= 0.8 <= found.high
    assert 0.92 <= covered / 400 <= 0.98
