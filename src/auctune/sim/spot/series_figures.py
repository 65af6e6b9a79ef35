"""Figures of counts and prices of spot GPUs, by which made-up series are compared with records."""

import numpy as np

from auctune.numerics.arrays import Bools, Floats, Ints
from auctune.numerics.goodness_of_fit import autocorrelation

LAGS = {"half an hour": 1, "2 hours": 4, "6 hours": 12, "a day": 48, "3 days": 144}
"""By words, in half-hours."""


def count_figures(counts: Ints, cap: int) -> dict[str, float]:
    """Figures of counts by half-hour."""
    empty = run_lengths(counts == 0)
    some = run_lengths(counts > 0)
    return {
        "mean": float(counts.mean()),
        "variance": float(counts.var()),
        "share of none": float((counts == 0).mean()),
        "share of all": float((counts == cap).mean()),
        **_correlations(counts.astype(np.float64)),
        "runs of none": float(len(empty)),
        "mean run of none": float(empty.mean()) if len(empty) else 0.0,
        "longest run of none": float(empty.max(initial=0)),
        "mean run of some": float(some.mean()) if len(some) else 0.0,
        "longest run of some": float(some.max(initial=0)),
    }


def price_figures(price: Floats) -> dict[str, float]:
    """Figures of prices by half-hour."""
    moves = np.diff(price)
    moves = moves[moves != 0]
    days = len(price) / 48
    return {
        "mean": float(price.mean()),
        "standard deviation": float(price.std()),
        "least": float(price.min()),
        "most": float(price.max()),
        **_correlations(price),
        "changes a day": len(moves) / days,
        "mean change": float(np.abs(moves).mean()) if len(moves) else 0.0,
    }


def run_lengths(held: Bools) -> Ints:
    """Lengths of the runs of true, in their order."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], held, [False]]).astype(np.int8)))
    return np.asarray(edges[1::2] - edges[::2])


def _correlations(values: Floats) -> dict[str, float]:
    if values.min() == values.max():
        return {f"correlation after {words}": 1.0 for words in LAGS}
    found = autocorrelation([values], np.array(list(LAGS.values())))
    return {
        f"correlation after {words}": value
        for words, value in zip(LAGS, found.tolist(), strict=True)
    }
