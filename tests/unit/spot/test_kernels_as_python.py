"""Kernels as plain Python: the same answers, so that nothing hangs on how numba compiles them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from auctune.spot import Ahap, Policy, SpotJob, default_pool, offline_optimum, play_batch
from auctune.spot.account import job_constants
from auctune.spot.batch import kernel as batch_kernel
from auctune.spot.batch import play as batch_play
from auctune.spot.policies import (
    Robust,
    SpotFirst,
    UniformProgress,
    ahanp,
    ahap,
    baselines,
    robust,
)
from auctune.spot.window import expectation, limits, program, table
from support.kernels import plain
from support.spot_cases import perfect
from support.spot_markets import random_market

JOB = SpotJob(workload=30, deadline=6, n_min=2, n_max=8, value=40)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_tables_and_plans(rng: np.random.Generator) -> None:
    terms = job_constants(JOB, 1.0)
    for seed in range(5):
        market = random_market(6, seed)
        tables, plans = [], []
        for fill, follow in (
            (program.fill_window, program.follow),
            (plain(program.fill_window), plain(program.follow)),
        ):
            scratch = program.make_scratch(terms, 6)
            scratch.values[:] = 0.0
            high = fill(terms, scratch, market.price, market.available, 1, 5, 40)
            plan = np.zeros((4, 2), dtype=np.int64)
            value = follow(terms, scratch, market.price, market.available, 4, 60, high, 3, plan)
            tables.append(scratch.values)
            plans.append((value, plan.tolist()))
        assert np.array_equal(tables[0], tables[1])
        assert plans[0] == plans[1]


def test_one_slot_of_a_table_and_its_best_count(rng: np.random.Generator) -> None:
    terms = job_constants(JOB, 1.0)
    high = table.target_units(terms, terms.workload)
    after = rng.uniform(0, 40, (9, high + 1))
    scratch = table.make_table_scratch(terms, high + 1)
    plain(table.fill_costs)(terms, 0.4, 3, scratch.costs)
    assert scratch.costs[:5].tolist() == pytest.approx([0, 0.4, 0.8, 1.2, 2.2])
    filled = []
    for function in (table.fill_slot, plain(table.fill_slot)):
        out = np.zeros_like(after)
        function(terms, scratch, after, 17, high, high, out)
        filled.append(out)
    assert np.array_equal(filled[0], filled[1])
    for k in (17, high - 5, high):
        for last in (0, 2, 8):
            arguments = (terms, scratch.costs, 0.4, 3, after, k, 0, high, last)
            compiled = table.best_state(*arguments)
            assert compiled == plain(table.best_state)(*arguments)
            # The table is the value of the best state.
            assert filled[0][last, k] == compiled[1]


def test_decisions_of_policies(rng: np.random.Generator) -> None:
    terms = job_constants(JOB, 1.0)
    for _ in range(200):
        slot, last = int(rng.integers(0, 6)), int(rng.choice([0, 2, 5, 8]))
        progress, available = float(rng.uniform(0, 30)), int(rng.integers(0, 12))
        price, before = float(rng.uniform(0.1, 1.2)), int(rng.integers(0, 12))
        held = int(rng.integers(0, last + 1))
        plans = rng.integers(0, 5, (3, 3, 2))
        cases: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
            (baselines.least_steady_count, (terms, slot, progress, last)),
            (baselines.all_spot, (terms, slot % 3 - 1, slot, progress, last, available)),
            (
                baselines.uniform,
                (terms, 2.0, slot % 2 > 0, slot > 2, slot, progress, last, held, available),
            ),
            (
                ahanp.react,
                (
                    terms,
                    0.6,
                    0.5,
                    0.5,
                    2.0,
                    slot % 2,
                    slot,
                    progress,
                    last,
                    price,
                    available,
                    before,
                ),
            ),
            (ahap.combine, (terms, plans, 3, slot, bool(slot % 2), available)),
        ]
        for function, arguments in cases:
            assert function(*arguments) == plain(function)(*arguments), function


@pytest.mark.slow
def test_whole_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pool: list[Policy] = [*default_pool()[::9], Ahap(6, 2, 0.5, plan_always=True), SpotFirst()]
    pool += [UniformProgress(), Robust(), Robust(risk=0.3, cost_cap=20.0)]
    market = random_market(6, 1)
    forecasts = perfect(market)
    compiled = play_batch(pool, [JOB], [market], [forecasts])
    for name in ("plan_windows", "decide", "take_slot", "run_slot"):
        monkeypatch.setattr(batch_kernel, name, plain(getattr(batch_kernel, name)))
    monkeypatch.setattr(batch_play, "play_pool", plain(batch_kernel.play_pool))
    monkeypatch.setattr(expectation, "mix", plain(expectation.mix))
    monkeypatch.setattr(limits, "fill_expected", plain(expectation.fill_expected))
    monkeypatch.setattr(limits, "choose", plain(expectation.choose))
    monkeypatch.setattr(robust, "fits", plain(robust.fits))
    slow = play_batch(pool, [JOB], [market], [forecasts])
    assert np.array_equal(compiled.utility, slow.utility)
    assert np.array_equal(compiled.held[0], slow.held[0])
    assert slow.utility.max() <= offline_optimum(JOB, market).utility + 1e-9
