"""The bound against HiGHS's optimum, node by node, and its own certificate."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings

from auctune.auction.dual import DescentParams, lagrangian_bound
from auctune.auction.offline import offline_optimum
from auctune.domain import Cluster, Node, NodeType, Quote, Task
from support.markets import random_market
from support.priced_markets import PricedMarket, priced_markets


@settings(max_examples=30, deadline=None)
@given(market=priced_markets())
def test_no_decisions_are_worth_more(market: PricedMarket) -> None:
    cluster, tasks = market.cluster, market.tasks
    best = offline_optimum(cluster, tasks).welfare
    assert lagrangian_bound(cluster, tasks).value >= best * (1 - 1e-12)


@settings(max_examples=30, deadline=None)
@given(market=priced_markets())
def test_a_descent_that_is_cut_short_gives_a_bound_too(market: PricedMarket) -> None:
    cluster, tasks = market.cluster, market.tasks
    short = lagrangian_bound(cluster, tasks, DescentParams(max_steps=1))
    assert short.value >= offline_optimum(cluster, tasks).welfare * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_of_a_crowded_market_is_below(seed: int) -> None:
    market = random_market(np.random.default_rng(300 + seed), slots=6, num_tasks=20)
    optimum = offline_optimum(market.cluster, market.tasks)
    assert optimum.optimal
    assert optimum.welfare <= lagrangian_bound(market.cluster, market.tasks).value


@settings(max_examples=30, deadline=None)
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
