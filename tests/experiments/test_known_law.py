"""The forecast of who knows the law of arrivals."""

from dataclasses import replace

import numpy as np
import pytest

from auctune.auction.dual.columns import to_columns
from auctune.auction.pricing.demand_history import RecentDemand
from auctune.auction.pricing.forecast import ForecastState
from harness.known_law import KnownLaw, KnownLawForecast, known_law
from harness.market import draw, setting

EVEN = setting("even", {"rate": "20", "nodes": "a100:4"})
DAY = draw(EVEN, 3).market


def at_slot(slot: int, num_seen: int = 0) -> ForecastState:
    """The state of a forecast that knows nothing of recent bids."""
    recent = RecentDemand(to_columns([], DAY.cluster), np.zeros(0), num_seen)
    return ForecastState(slot, recent)


def test_days_are_conditioned_as_a_normal_law_is() -> None:
    random = np.random.default_rng(5)
    decay = 0.8 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    logs = 3.0 + 0.1 * random.multivariate_normal(np.zeros(6), decay, 20_000)
    past = np.expm1(np.array([3.2, 3.3]))
    counts = KnownLaw(logs, 0.01 * decay).conditioned(past, np.arange(len(logs)))
    found = np.log1p(counts)
    # An autoregression: all that the past says is in its last slot.
    ahead = np.arange(1, 5)
    assert found.mean(axis=0) == pytest.approx(3.0 + 0.3 * 0.8**ahead, abs=0.005)
    assert found.std(axis=0) == pytest.approx(0.1 * np.sqrt(1 - 0.64**ahead), abs=0.005)


def test_nothing_of_what_is_to_come_is_read() -> None:
    law, slot = known_law(EVEN), 40
    later = [replace(t, arrival=slot) for t in DAY.tasks if t.arrival >= slot]
    before = [t for t in DAY.tasks if t.arrival < slot]
    total, paths = KnownLawForecast(law, DAY.tasks).predict(at_slot(slot), 30, 8)
    other_total, other_paths = KnownLawForecast(law, [*before, *later]).predict(
        at_slot(slot), 30, 8
    )
    assert total == other_total
    assert np.array_equal(paths, other_paths)
    assert paths.shape == (8, 30)


def test_of_independent_slots_the_mean_is_expected_whatever_came() -> None:
    total, paths = KnownLawForecast(known_law(EVEN), DAY.tasks).predict(at_slot(40), 104, 8)
    assert total == pytest.approx(20, abs=2)
    assert paths.mean() == pytest.approx(20, abs=1)


def test_a_slot_that_brought_more_than_expected_brings_more() -> None:
    forecast = KnownLawForecast(known_law(EVEN), DAY.tasks)
    for seen in (21, 28, 90):
        total, paths = forecast.predict(at_slot(40, seen), 10, 8)
        assert total > seen
        assert paths[:, 0] == pytest.approx(total - seen)
