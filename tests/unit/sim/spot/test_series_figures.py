"""Figures of counts and prices."""

import numpy as np
import pytest

from auctune.sim.spot.series_figures import count_figures, price_figures, run_lengths


def test_runs_are_counted_to_both_ends() -> None:
    held = np.array([1, 1, 0, 1, 0, 0, 1, 1, 1], dtype=bool)
    assert run_lengths(held).tolist() == [2, 1, 3]
    assert run_lengths(~held).tolist() == [1, 2]
    assert run_lengths(np.zeros(4, dtype=bool)).tolist() == []


def test_figures_of_counts_by_hand() -> None:
    counts = np.tile(np.repeat([0, 16, 0, 8], [90, 50, 10, 50]), 2)
    figures = count_figures(counts, 16)
    assert figures["mean"] == 6
    assert figures["variance"] == pytest.approx(0.25 * 256 + 0.25 * 64 - 36)
    assert figures["share of none"] == 0.5
    assert figures["share of all"] == 0.25
    assert figures["runs of none"] == 4
    assert figures["mean run of none"] == 50
    assert figures["longest run of none"] == 90
    assert figures["mean run of some"] == 50


def test_figures_of_prices_by_hand() -> None:
    price = np.tile(np.repeat([0.3, 0.4, 0.5], [24, 12, 12]), 10)
    figures = price_figures(price)
    assert (figures["least"], figures["most"]) == (0.3, 0.5)
    assert figures["mean"] == pytest.approx(0.375)
    # Three changes a day, but none after the last day.
    assert figures["changes a day"] == pytest.approx(2.9)
    assert figures["correlation after a day"] == pytest.approx(1.0)


def test_figures_of_what_never_changes_are_numbers() -> None:
    figures = count_figures(np.zeros(200, dtype=np.int64), 16) | price_figures(np.full(200, 0.3))
    assert all(np.isfinite(value) for value in figures.values())
