"""The bound against HiGHS's optimum, node by node, and its own certificate."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given

from auctune.auction.dual import BoundParams, DescentParams, lagrangian_bound
from auctune.auction.offline import offline_optimum
from auctune.domain import Cluster, Node, NodeType, Quote, Task
from support.markets import random_market
from support.priced_markets import PricedMarket, priced_markets
from support.schedule_relaxation import solve_relaxation
from support.thorough import drawn


@drawn(30)
@given(market=priced_markets())
def test_no_decisions_are_worth_more(market: PricedMarket) -> None:
    cluster, tasks = market.cluster, market.tasks
    best = offline_optimum(cluster, tasks).welfare
    assert lagrangian_bound(cluster, tasks).value >= best * (1 - 1e-12)


@drawn(30)
@given(market=priced_markets())
def test_a_descent_that_is_cut_short_gives_a_bound_too(market: PricedMarket) -> None:
    cluster, tasks = market.cluster, market.tasks
    one = DescentParams(max_steps=1)
    params = BoundParams(one, one, max_responses=1)
    short = lagrangian_bound(cluster, tasks, params)
    assert short.value >= offline_optimum(cluster, tasks).welfare * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_of_a_crowded_market_is_below(seed: int) -> None:
    market = random_market(np.random.default_rng(300 + seed), slots=6, num_tasks=20)
    optimum = offline_optimum(market.cluster, market.tasks)
    assert optimum.optimal
    assert optimum.welfare <= lagrangian_bound(market.cluster, market.tasks).value


@drawn(30)
@given(market=priced_markets())
def test_prices_certify_the_value(market: PricedMarket) -> None:
    found = lagrangian_bound(market.cluster, market.tasks)
    whole = replace(market, weights=np.ones(len(market.tasks)))
    value = whole.dual_value(found.lam, found.phi)
    assert value * (1 - 1e-12) <= found.value <= value * (1 + 1e-8) + 1e-8


CLUSTER = Cluster(4, 60.0, 1.0, {"gpu": NodeType(10.0, 9.0, (0.5,) * 4)}, (Node("n", "gpu"),))
TASK = Task("t", 0, 1, 20.0, 1.0, Decimal(5), {"gpu": 10.0})


def test_room_for_all_makes_the_bound_what_they_are_worth_at_best() -> None:
    quotes = (Quote("dear", Decimal(2), 0), Quote("slow", Decimal("0.25"), 1))
    other = replace(TASK, id="u", arrival=2, deadline=3, bid=Decimal(3))
    patient = replace(other, work=10.0, quotes=quotes)
    assert lagrangian_bound(CLUSTER, [TASK, patient]).value == pytest.approx(4.0 + 2.25)


def test_whole_cells_make_it_tighter_than_work_that_can_be_cut() -> None:
    # A sample more than a cell holds takes two cells; cut at will it would take 1.1 of them.
    long = replace(TASK, work=11.0, bid=Decimal(3))
    tasks = [replace(long, id=name) for name in "ab"]
    assert lagrangian_bound(CLUSTER, tasks).value == pytest.approx(2.0)


def test_tasks_that_fit_nowhere_add_nothing() -> None:
    tasks = [
        TASK,
        replace(TASK, id="too large", memory_gb=8.5),
        replace(TASK, id="too fast", throughput={"gpu": 11.0}),
        replace(TASK, id="too long", work=21.0),
        replace(TASK, id="too late", quotes=(Quote("v", Decimal(0), 2),)),
    ]
    assert lagrangian_bound(CLUSTER, tasks).value == pytest.approx(4.0)


def test_a_market_without_tasks_is_worth_nothing() -> None:
    assert lagrangian_bound(CLUSTER, []).value == pytest.approx(0.0, abs=1e-9)


def with_costs(bid: str, work: float, costs: tuple[float, ...]) -> tuple[Cluster, Task]:
    """A task that pays its own costs, on a node of its own."""
    free = NodeType(10.0, 9.0, (0.0,) * len(costs))
    cluster = Cluster(len(costs), 60.0, 1.0, {"gpu": free}, (Node("n", "gpu"),))
    task = Task("t", 0, len(costs) - 1, work, 1.0, Decimal(bid), {"gpu": 10.0})
    return cluster, replace(task, operating_cost={"gpu": costs})


@pytest.mark.parametrize("dear", [1e12, 1e15, 1e17, 1e20])
def test_costs_that_nobody_pays_do_not_make_the_bound_false(dear: float) -> None:
    cluster, task = with_costs("1", 10.0, (0.5803, dear))
    assert 1 - 0.5803 <= lagrangian_bound(cluster, [task]).value <= (1 - 0.5803) * (1 + 1e-7)
    cluster, task = with_costs("20", 20.0, (9.9, dear, 9.9, dear, 9.9, dear))
    assert 20 - 9.9 - 9.9 <= lagrangian_bound(cluster, [task]).value <= 0.2 * (1 + 1e-6)


def test_bids_of_very_different_sizes_have_a_true_bound() -> None:
    cluster, task = with_costs("100000000000", 20.0, (49999999999.9, 49999999999.9, 1e12))
    # What floats of these costs say, exactly: no rounding of ours may be below.
    exact = Decimal(10) ** 11 - 2 * Decimal.from_float(49999999999.9)
    small = replace(task, id="u", bid=Decimal("0.0001"), operating_cost=None)
    for tasks in ([task], [task, small]):
        assert Decimal(lagrangian_bound(cluster, tasks).value) >= exact


@pytest.mark.parametrize("num_tasks", [8, 30])
@pytest.mark.parametrize("seed", range(8))
def test_small_markets_come_near_the_optimum_of_the_linear_program(
    seed: int, num_tasks: int
) -> None:
    market = random_market(np.random.default_rng(seed), slots=5, num_tasks=num_tasks)
    best = solve_relaxation(market.cluster, market.tasks).welfare
    found = lagrangian_bound(market.cluster, market.tasks)
    assert best * (1 - 1e-12) <= found.value <= best * 1.01 + 1e-7


@pytest.mark.parametrize(("seed", "num_tasks"), [(5069, 40), (5388, 30), (5191, 20)])
def test_descents_that_begin_anew_at_edges_come_within_two_hundredths(
    seed: int, num_tasks: int
) -> None:
    market = random_market(np.random.default_rng(seed), slots=5, num_tasks=num_tasks)
    best = solve_relaxation(market.cluster, market.tasks).welfare
    assert lagrangian_bound(market.cluster, market.tasks).value <= 1.02 * best


@pytest.mark.parametrize(("name", "value"), [("max_responses", 0), ("gain", -1.0)])
def test_parameters_that_make_no_sense_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is .*; expected"):
        BoundParams(**{name: value})  # type: ignore[arg-type]
