"""Kernels as plain Python: the same answers, so that nothing hangs on how numba compiles them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from auctune.edge import EdgePlan, PaperPrices
from auctune.edge.search import fill, forward, offers, problem, search
from auctune.numerics.rng import stream
from support.edge_cases import small_job, small_market, used_ledger


def plain(compiled: Callable[..., Any]) -> Callable[..., Any]:
    function: Callable[..., Any] = compiled.py_func  # type: ignore[attr-defined]
    return function


KERNELS = {
    fill: ("highest_level", "make_fill", "tier_keys", "sort_tiers"),
    problem: (
        "sort_tiers",
        "make_fill",
        "slot_problem",
        "greedy_fill",
        "pairs_by_omega",
        "printed_fill",
        "_are_equal",
        "slot_curves",
        "fill_table",
        "read_split",
    ),
    forward: (
        "sort_tiers",
        "make_fill",
        "slot_problem",
        "greedy_fill",
        "pairs_by_omega",
        "printed_fill",
        "take_data",
        "spend_data",
        "_dearness",
        "build_plan",
        "plan_cost",
    ),
    search: ("slot_curves", "fill_table", "read_split", "build_plan", "plan_cost"),
}


def found(seed: int) -> list[tuple[float, EdgePlan]]:
    random = stream(seed, "edge kernels")
    market = small_market(random)
    ledger, job = used_ledger(random, market), small_job(random, market)
    made = offers(ledger, PaperPrices(), job, job.arrival, printed=seed % 2 == 1)
    return [(offer.cost, offer.plan(ledger, job)) for offer in made]


def test_the_whole_search(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = range(8)
    compiled = [found(seed) for seed in seeds]
    for module, names in KERNELS.items():
        for name in names:
            kernel = getattr(module, name)
            if hasattr(kernel, "py_func"):
                monkeypatch.setattr(module, name, plain(kernel))
    for seed, expected in zip(seeds, compiled, strict=True):
        again = found(seed)
        assert [plan for _, plan in again] == [plan for _, plan in expected]
        costs = [cost for cost, _ in expected]
        assert np.allclose([cost for cost, _ in again], costs, rtol=1e-12, atol=0)
