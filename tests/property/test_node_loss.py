"""Nodes that are lost and return: whatever happens, promises are kept or money is given back."""

import copy
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pytest

from auctune.domain import (
    Cell,
    Cluster,
    Decision,
    InputError,
    Node,
    NodeLost,
    NodeReturned,
    NodeType,
    Schedule,
    Task,
)
from auctune.sim.engine import SimulationResult, simulate
from auctune.sim.feasibility import violations
from auctune.sim.instance import Instance
from auctune.sim.metrics import measure
from auctune.sim.outages import Outage
from auctune.sim.tally import Accounts, vendor_price
from support.markets import random_market
from support.mechanisms import MECHANISMS, Make
from support.thorough import rotated, times


def random_outages(rng: np.random.Generator, cluster: Cluster) -> list[Outage]:
    """Some nodes go, and some of these come back, perhaps to go again."""
    events: list[Outage] = []
    for node in cluster.nodes:
        slots = np.sort(rng.choice(np.arange(1, cluster.slots), rng.integers(0, 4), replace=False))
        for turn, slot in enumerate(slots.tolist()):
            events.append((NodeReturned if turn % 2 else NodeLost)(node.id, slot))
    return events


def played(make: Make, seed: int) -> tuple[list[Outage], SimulationResult]:
    rng = np.random.default_rng(seed)
    market = random_market(rng, slots=12, nodes=4, num_tasks=30)
    outages = random_outages(rng, market.cluster)
    return outages, simulate(market, make(market.cluster), outages=outages)


@pytest.mark.parametrize("make", rotated(MECHANISMS).values(), ids=rotated(MECHANISMS))
def test_final_plans_can_be_carried_out_and_refunds_are_whole(make: Make) -> None:
    replanned = refunded = 0
    for seed in range(times(12)):
        outages, result = played(make, seed)
        changes = result.changes or ()
        cluster = result.instance.cluster
        # 4e among them: whoever is not refunded gets all its work done by its deadline.
        assert (
            violations(cluster, result.tasks, result.decisions, outages=outages, changes=changes)
            == []
        )
        report = measure(result)
        gone = {change.task.id for change in changes if change.refunded}
        paid = sum(d.payment for d in result.decisions if d.admitted and d.task not in gone)
        assert report.revenue == float(paid)
        replanned += sum(not change.refunded for change in changes)
        refunded += len(gone)
    assert replanned > 1
    assert refunded > 1


def test_the_accounts_show_what_outages_cost() -> None:
    for seed in range(8):
        outages, result = played(MECHANISMS["critical-masked-max-revealed-range"], seed)
        if not outages:
            continue
        cluster, accounts = result.instance.cluster, Accounts(result.instance.cluster)
        last = {change.task.id: change for change in result.changes or ()}
        welfare = 0.0
        for task, decision in zip(result.tasks, result.decisions, strict=True):
            if decision.schedule is None:
                continue
            change = last.get(task.id)
            cells = decision.schedule.cells if change is None else change.cells
            bid = Decimal(0) if change is not None and change.refunded else task.bid
            welfare += float(bid - vendor_price(task, decision.schedule))
            welfare -= accounts.cells_cost(task, cells)
        report = measure(result)
        assert report.welfare == pytest.approx(welfare)
        assert report.outages is not None
        assert report.outages.num_replanned == len(result.changes or ())
        sold = sum(
            task.throughput[node_type(cluster, cell.node)]
            for task, decision in zip(result.tasks, result.decisions, strict=True)
            for cell in final_cells(decision, last.get(task.id))
        )
        compute = sum(cluster.node_types[node.type].compute for node in cluster.nodes)
        assert sum(report.utilization.compute) * compute == pytest.approx(sold)


def node_type(cluster: Cluster, name: str) -> str:
    return next(node.type for node in cluster.nodes if node.id == name)


def final_cells(decision: Decision, change: object) -> Sequence[Cell]:
    cells: Sequence[Cell] | None = getattr(change, "cells", None)
    if cells is not None:
        return cells
    return decision.schedule.cells if decision.schedule else ()


CLUSTER = Cluster(
    6,
    60.0,
    1.0,
    {"cheap": NodeType(8.0, 9.0, (0.1,) * 6), "dear": NodeType(8.0, 9.0, (1.0,) * 6)},
    (Node("a", "cheap"), Node("b", "dear")),
)
TASK = Task("x", 0, 5, 16.0, 1.0, Decimal(50), {"cheap": 8.0, "dear": 8.0})


@pytest.mark.parametrize("name", ["critical-masked-max-revealed-range", "eft"])
def test_a_task_moves_to_what_is_left_and_pays_no_more(name: str) -> None:
    outage = NodeLost("a", 1)
    result = simulate(Instance(CLUSTER, (TASK,)), MECHANISMS[name](CLUSTER), outages=[outage])
    (decision,) = result.decisions
    assert decision.schedule == Schedule((Cell(0, "a"), Cell(1, "a")))
    assert result.changes is not None
    (change,) = result.changes
    assert change.cells == (Cell(0, "a"), Cell(1, "b"))
    report = measure(result)
    assert report.revenue == float(decision.payment)
    assert report.operating_cost == pytest.approx(1.1)
    assert report.outages is not None
    assert report.outages.extra_operating_cost == pytest.approx(0.9)
    assert report.outages.refunds == 0


@pytest.mark.parametrize("name", ["critical-masked-max-revealed-range", "eft"])
def test_a_task_that_nothing_can_finish_gets_its_money_back(name: str) -> None:
    only = Task("x", 0, 2, 16.0, 1.0, Decimal(50), {"cheap": 8.0})
    result = simulate(
        Instance(CLUSTER, (only,)), MECHANISMS[name](CLUSTER), outages=[NodeLost("a", 1)]
    )
    report = measure(result)
    (decision,) = result.decisions
    assert decision.admitted
    assert report.revenue == 0
    assert report.welfare == pytest.approx(-0.1)  # what it has cost until then
    assert report.outages is not None
    assert (report.outages.num_refunded, report.outages.refunds) == (1, float(decision.payment))
    assert report.utilization.compute == (0.5, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("make", rotated(MECHANISMS).values(), ids=rotated(MECHANISMS))
def test_a_lost_node_sells_nothing_until_it_returns(make: Make) -> None:
    mechanism = make(CLUSTER)
    mechanism.lose_node("a", 1, [])
    mechanism.lose_node("b", 1, [])
    task = Task("y", 1, 5, 8.0, 1.0, Decimal(50), {"cheap": 8.0, "dear": 8.0})
    refused = copy.deepcopy(mechanism).offer(task, 1)
    assert refused.reason == "no_capacity"
    assert (mechanism.state().compute_used[1:] == 1.0).all()
    mechanism.apply(NodeReturned("b", 3))
    decision = mechanism.offer(task, 3)
    assert decision.schedule == Schedule((Cell(3, "b"),))


def test_only_nodes_that_are_there_are_lost() -> None:
    mechanism = MECHANISMS["eft"](CLUSTER)
    with pytest.raises(InputError, match="no node"):
        mechanism.lose_node("c", 0, [])
    with pytest.raises(InputError, match="not lost"):
        mechanism.apply(NodeReturned("a", 0))
    mechanism.lose_node("a", 0, [])
    with pytest.raises(InputError, match="lost already"):
        mechanism.lose_node("a", 1, [])
