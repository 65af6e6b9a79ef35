"""The search against plain references, brute force and the program of problem (7)."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from auctune.edge import (
    EdgeLedger,
    PaperPrices,
    SharePrices,
    best_plan,
    cost_of,
    first_violation,
)
from auctune.edge.prices import EdgePricing
from auctune.edge.search import offers
from auctune.edge.search.forward import build_plan, plan_cost, spend_data
from auctune.edge.search.problem import (
    Subproblem,
    fill_table,
    levels_of,
    make_subproblem,
    slot_curves,
)
from auctune.edge.search.search import chunks_of, tables
from auctune.numerics.arrays import Floats
from auctune.numerics.rng import stream
from support.edge_cases import small_job, small_market, used_ledger
from support.thorough import THOROUGH

PRICINGS: tuple[EdgePricing, ...] = (PaperPrices(), SharePrices(1.0, 20.0))


def draw(seed: int):  # type: ignore[no-untyped-def]
    random = stream(seed, "edge search")
    market = small_market(random)
    return used_ledger(random, market), small_job(random, market), PRICINGS[seed % 2]


def slot_cost(
    subproblem: Subproblem, row: int, trained: tuple[int, ...], server: int
) -> float | None:
    """Eq. 8 for chunks [R] by the site that trains them; none where they do not fit."""
    levels = np.searchsorted(subproblem.level_chunks, trained)
    room = subproblem.levels[row].copy()
    room[server] = subproblem.levels_beside[row, server]
    if np.any(levels > room):
        return None
    workers = subproblem.level_workers[levels]
    crossing = subproblem.chunk_mb * np.maximum(np.array(trained) - subproblem.data, 0).sum()
    crossing += subproblem.parameter_mb * (workers.sum() - workers[server])
    if crossing > subproblem.room[row]:
        return None
    price = subproblem.worker_price[row]
    return float(
        workers @ price
        + subproblem.server_price[row, server]
        + crossing * subproblem.traffic_price[row]
    )


def cheapest(subproblem: Subproblem, row: int, chunks: int) -> float:
    """The least cost of so many chunks in a slot, by trying all."""
    num_sites = len(subproblem.data)
    splits = itertools.product(range(chunks + 1), repeat=num_sites)
    costs = (
        slot_cost(subproblem, row, split, server)
        for split in splits
        if sum(split) == chunks
        for server in range(num_sites)
        if subproblem.levels_beside[row, server] >= 0
    )
    return min((cost for cost in costs if cost is not None), default=math.inf)


def test_slot_curves_are_close_to_the_best_and_never_below_it() -> None:
    exact = compared = 0
    for seed in range(12 if not THOROUGH else 60):
        ledger, job, pricing = draw(seed)
        subproblem = make_subproblem(
            ledger, pricing(ledger, job.arrival), job, chunks_of(ledger, job)
        )
        curve, _, _ = tables(subproblem)
        for chunks in range(1, min(5, job.num_chunks) + 1):
            best = cheapest(subproblem, 0, chunks)
            assert curve[0, chunks] >= best - 1e-9
            compared += math.isfinite(best)
            exact += math.isfinite(best) and curve[0, chunks] <= best + 1e-9
    assert exact >= 0.8 * compared > 0


def test_theorem_4_fails_as_algorithm_3_is_never_below_the_best_and_may_miss_it() -> None:
    missed = compared = 0
    for seed in range(12):
        ledger, job, pricing = draw(seed)
        subproblem = make_subproblem(
            ledger, pricing(ledger, job.arrival), job, chunks_of(ledger, job)
        )
        printed, _, _ = tables(subproblem._replace(printed=True))
        for chunks in range(1, min(4, job.num_chunks) + 1):
            best = cheapest(subproblem, 0, chunks)
            if math.isfinite(best) and printed[0, chunks] < math.inf:
                compared += 1
                missed += printed[0, chunks] > best + 1e-9
            else:
                missed += math.isfinite(best)
    assert missed > 0 < compared


def plain_table(curve: Floats) -> Floats:
    num_slots, width = curve.shape
    best = np.full((num_slots + 1, width), np.inf)
    best[0, 0] = 0
    for t in range(num_slots):
        for d in range(width):
            best[t + 1, d] = min(best[t, d - e] + curve[t, e] for e in range(d + 1))
    return best


def test_no_kernel_is_compiled_anew_for_whole_numbers() -> None:
    random = stream(3, "edge search")
    market = replace(small_market(random), chunk_mb=2)
    job = replace(small_job(random, market), parameter_mb=1)
    list(offers(EdgeLedger(market), PRICINGS[0], job, job.arrival))
    list(offers(EdgeLedger(market), PRICINGS[0], replace(job, parameter_mb=1.5), job.arrival))
    kernels: tuple[Any, ...] = (slot_curves, build_plan, plan_cost)
    assert [len(kernel.signatures) for kernel in kernels] == [1, 1, 1]


def test_the_table_is_the_plain_recursion() -> None:
    for seed in range(10):
        ledger, job, pricing = draw(seed)
        subproblem = make_subproblem(
            ledger, pricing(ledger, job.arrival), job, chunks_of(ledger, job)
        )
        curve, _, best = tables(subproblem)
        assert np.array_equal(best, plain_table(curve))


def test_the_table_is_the_plain_recursion_where_slots_reach_differently_far() -> None:
    random = np.random.default_rng(5)
    curve = np.full((4, 10), np.inf)
    reach = np.array([3, 0, 9, 2])
    for t, most in enumerate(reach):
        curve[t, : most + 1] = np.concatenate(([0], np.sort(random.uniform(0, 9, most))))
    best = np.empty((5, 10))
    fill_table(curve, reach, best)
    assert np.array_equal(best, plain_table(curve))


def test_levels_are_the_steps_at_which_more_workers_train_more() -> None:
    for seed in range(40):
        _, job, _ = draw(seed)
        workers, chunks = levels_of(job, job.num_chunks)
        assert workers[0] == chunks[0] == 0
        assert chunks[-1] >= job.num_chunks > (chunks[-2] if len(chunks) > 1 else 0)
        for count in range(1, job.num_chunks + 1):
            level = int(np.searchsorted(chunks, count))
            assert workers[level] == job.workers_for(count)


def test_every_offer_can_be_carried_out_and_costs_what_it_says() -> None:
    for seed in range(40):
        ledger, job, pricing = draw(seed)
        prices = pricing(ledger, job.arrival)
        last_cost, last_finish = math.inf, -1
        for offer in offers(ledger, pricing, job, job.arrival):
            plan = offer.plan(ledger, job)
            assert first_violation(job, plan, ledger, offer.finish) is None
            assert offer.cost == pytest.approx(cost_of(ledger, prices, job, plan), abs=1e-9)
            assert offer.cost < last_cost
            assert offer.finish > last_finish
            last_cost, last_finish = offer.cost, offer.finish


def test_the_search_is_within_a_hundredth_of_the_best_plan_on_average() -> None:
    gained = possible = 0.0
    for seed in range(400 if THOROUGH else 25):
        ledger, job, pricing = draw(seed)
        best = best_plan(ledger, pricing, job)
        found = max(
            (job.value(one.finish) - one.cost for one in offers(ledger, pricing, job, job.arrival)),
            default=0.0,
        )
        assert found <= max(best.bound, 0.0) + 1e-5
        if best.plan is not None:
            assert first_violation(job, best.plan, ledger) is None
        gained += max(found, 0.0)
        possible += max(best.surplus, 0.0)
    assert gained >= 0.99 * possible > 0


def test_a_free_market_is_used_sparingly() -> None:
    """All is free at first: then the plan that takes least is the one to take."""
    random = stream(1, "edge search")
    market = small_market(random)
    job = small_job(random, market)
    ledger = EdgeLedger(market)
    offer = next(offers(ledger, PaperPrices(), job, job.arrival))
    assert offer.cost == 0
    for part in offer.plan(ledger, job).slots:
        trained: dict[str, int] = {}
        for move in part.moves:
            trained[move.destination] = trained.get(move.destination, 0) + move.chunks
        assert part.workers == {site: job.workers_for(n) for site, n in trained.items()}


def test_a_sites_own_chunks_are_kept_for_the_slots_in_which_traffic_is_dear() -> None:
    steps, ones = np.arange(5), np.ones((2, 2))
    subproblem = Subproblem(
        0, ones, ones, np.array([1.0, 3.0]), np.array([4.0, 4.0]), 2.0, 1.0, steps, steps,
        4 * np.ones((2, 2), dtype=np.int64), 4 * np.ones((2, 2), dtype=np.int64), np.array([2, 2]),
    )  # fmt: skip
    servers, trained = np.array([0, 0]), np.array([[2, 0], [2, 0]])
    taken = np.array([[2, 0], [0, 2]])
    spend_data(subproblem, servers, trained, taken)
    assert taken.tolist() == [[0, 2], [2, 0]]
    # Where the cheap slot has no room for them all stays as it is.
    taken = np.array([[2, 0], [0, 2]])
    spend_data(subproblem._replace(room=np.array([3.0, 4.0])), servers, trained, taken)
    assert taken.tolist() == [[2, 0], [0, 2]]
