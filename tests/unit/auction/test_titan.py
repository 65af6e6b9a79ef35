"""Titan: bids of a slot are weighed against each other, by node and by node type."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from auctune.auction import Titan, TitanParams
from auctune.auction.offline import offline_optimum
from auctune.domain import Cluster, Decision, Node, NodeType, Quote, Reason, Task
from auctune.sim.engine import simulate
from auctune.sim.feasibility import violations
from auctune.sim.instance import Instance
from auctune.sim.metrics import measure
from support.markets import random_market

CLUSTER = Cluster(4, 60.0, 1.0, {"gpu": NodeType(10.0, 9.0, (0.1,) * 4)}, (Node("n", "gpu"),))
TASK = Task("t", 0, 1, 20.0, 1.0, Decimal(5), {"gpu": 10.0})


def offered(
    *tasks: Task, cluster: Cluster = CLUSTER, params: TitanParams | None = None
) -> list[Decision]:
    return Titan(cluster, params).offer_slot(tasks, 0)


def test_the_bids_worth_most_together_win_not_the_first_ones() -> None:
    large = replace(TASK, id="large", bid=Decimal(9))
    halves = [replace(TASK, id=name, work=10.0, bid=Decimal(5)) for name in ("one", "two")]
    decisions = offered(large, *halves)
    assert [decision.admitted for decision in decisions] == [False, True, True]
    assert [decision.payment for decision in decisions] == [0, 5, 5]
    assert decisions[1].value == pytest.approx(4.9)


def test_cells_that_cost_the_same_are_taken_early() -> None:
    (decision,) = offered(replace(TASK, work=20.0, deadline=3))
    assert decision.schedule is not None
    assert [slot for slot, _ in decision.schedule.cells] == [0, 1]


def test_cells_that_cost_more_are_not() -> None:
    dear_at_first = {"gpu": NodeType(10.0, 9.0, (1.0, 1.0, 0.1, 0.1))}
    cluster = replace(CLUSTER, node_types=dear_at_first)
    (decision,) = offered(replace(TASK, deadline=3), cluster=cluster)
    assert decision.schedule is not None
    assert [slot for slot, _ in decision.schedule.cells] == [2, 3]


def test_rejections_say_why() -> None:
    winner = replace(TASK, id="winner", bid=Decimal(9))
    decisions = offered(
        winner,
        replace(TASK, id="no room left"),
        replace(TASK, id="too much", work=21.0),
        replace(TASK, id="worth less than its energy", deadline=3, bid=Decimal("0.1")),
    )
    assert [decision.reason for decision in decisions] == [
        None,
        Reason.NO_CAPACITY,
        Reason.NO_FEASIBLE_SCHEDULE,
        Reason.UNPROFITABLE,
    ]


def test_vendors_are_drawn_by_seed() -> None:
    quotes = tuple(Quote(f"v{i}", Decimal(1), 0) for i in range(4))
    vendors = set()
    for seed in range(30):
        (decision,) = offered(replace(TASK, quotes=quotes), params=TitanParams(seed=seed))
        assert decision.schedule is not None
        vendors.add(decision.schedule.vendor)
    assert vendors == {quote.vendor for quote in quotes}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_market_of_one_slot_without_vendors_is_decided_as_the_optimum(seed: int) -> None:
    market = one_slot(random_market(np.random.default_rng(seed), num_tasks=10))
    exact = Titan(market.cluster, TitanParams(gap=0.0, max_nodes=10_000), exact_cells=10**9)
    welfare = measure(simulate(market, exact)).welfare
    best = offline_optimum(market.cluster, market.tasks)
    # It gives up a hundredth of a task's value at most to run it early.
    assert best.welfare * 0.99 <= welfare + 1e-9 <= best.bound + 1e-9


def one_slot(market: Instance) -> Instance:
    tasks = tuple(
        replace(task, arrival=0, deadline=max(task.deadline, 4), quotes=()) for task in market.tasks
    )
    return Instance(market.cluster, tasks)


@pytest.mark.slow
def test_by_node_type_a_market_is_decided_about_as_well_as_by_node() -> None:
    by_node = by_type = 0.0
    for seed in range(6):
        market = random_market(np.random.default_rng(seed), nodes=6, num_tasks=60)
        for exact_cells in (0, 10**9):
            result = simulate(market, Titan(market.cluster, exact_cells=exact_cells))
            assert violations(market.cluster, result.tasks, result.decisions) == []
            welfare = measure(result).welfare
            by_node += welfare * (exact_cells > 0)
            by_type += welfare * (exact_cells == 0)
    assert by_type == pytest.approx(by_node, rel=0.05)


@pytest.mark.parametrize("exact_cells", [0, 10**9])
def test_a_lost_node_is_sold_nothing(exact_cells: int) -> None:
    cluster = replace(CLUSTER, nodes=(Node("n", "gpu"), Node("m", "gpu")))
    titan = Titan(cluster, exact_cells=exact_cells)
    titan.lose_node("n", 0, [])
    decisions = titan.offer_slot([TASK, replace(TASK, id="u")], 0)
    assert sorted(decision.admitted for decision in decisions) == [False, True]
    (plan,) = [decision.schedule for decision in decisions if decision.schedule is not None]
    assert {cell.node for cell in plan.cells} == {"m"}


def test_a_node_type_is_not_taken_for_the_node_of_the_same_number() -> None:
    types = {"small": NodeType(4.0, 9.0, (0.1,) * 4), "large": NodeType(10.0, 9.0, (0.1,) * 4)}
    cluster = replace(
        CLUSTER, node_types=types, nodes=(Node("big", "large"), Node("little", "small"))
    )
    task = replace(TASK, throughput={"large": 10.0, "small": 5.0})
    decisions = Titan(cluster, exact_cells=0).offer_slot([task], 0)
    assert violations(cluster, [task], decisions) == []
    assert decisions[0].admitted


def test_added_up_room_that_no_node_has_is_not_sold() -> None:
    # Two nodes of 10: three tasks of 6 a slot fit into 20 by their sum, and on no two nodes.
    cluster = replace(CLUSTER, nodes=(Node("n", "gpu"), Node("m", "gpu")))
    tasks = [
        replace(TASK, id=f"t{i}", work=6.0, deadline=0, throughput={"gpu": 6.0}, bid=Decimal(bid))
        for i, bid in enumerate((4, 5, 6))
    ]
    small = replace(tasks[0], id="small", work=4.0, throughput={"gpu": 4.0}, bid=Decimal(1))
    decisions = Titan(cluster, exact_cells=0).offer_slot([*tasks, small], 0)
    assert violations(cluster, [*tasks, small], decisions) == []
    assert [decision.admitted for decision in decisions] == [False, True, True, True]
