"""Prices that go on as they began, at any unix time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.files.electricity import DAY_SECONDS, PriceSeries, RepeatedPrices

HOURS = 3600 * np.arange(48.0)
PRICES = np.random.default_rng(0).uniform(-20.0, 90.0, 48)
MIDNIGHT = 19_000 * DAY_SECONDS


@given(st.floats(-1e6, 1e6).map(round), st.integers(1, 300_000), st.sampled_from([0.0, MIDNIGHT]))
def test_a_mean_is_that_of_the_hours_it_lies_in_each_by_its_time(
    begin: int, seconds: int, first: float
) -> None:
    found = RepeatedPrices(PriceSeries(HOURS + first, PRICES)).mean(
        first + begin, first + begin + seconds
    )
    spent = 0.0
    for hour in range(begin // 3600, (begin + seconds - 1) // 3600 + 1):
        within = min(begin + seconds, 3600 * (hour + 1)) - max(begin, 3600 * hour)
        spent += PRICES[hour % 48] * within
    assert found == pytest.approx(spent / seconds, abs=1e-6)


@pytest.mark.parametrize("times", [HOURS + 1800.0, HOURS[:30]])
def test_a_series_that_would_move_the_hours_of_the_day_is_refused(times: np.ndarray) -> None:
    with pytest.raises(InputError, match="whole days"):
        RepeatedPrices(PriceSeries(times, PRICES[: len(times)]))
