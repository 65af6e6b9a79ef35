"""The best answers of all tasks to prices, against every schedule of each."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given

from auctune.auction.dual import TaskColumns
from auctune.auction.dual.response import respond
from auctune.domain import Cluster, Node, NodeType, Quote, Task
from auctune.numerics.arrays import Floats
from support.dual_oracle import holds, least_cost
from support.priced_markets import PricedMarket, priced_markets
from support.thorough import drawn


def held(market: PricedMarket) -> TaskColumns:
    """Columns with throughput 0 where no node can hold the task, as `respond` wants them."""
    can = [[holds(market.cluster, t, k) for k in market.cluster.node_types] for t in market.tasks]
    columns = market.columns
    return columns._replace(throughput=np.where(can, columns.throughput, 0.0))


def answers(market: PricedMarket, *, relaxed: bool = False) -> tuple[float, Floats, Floats]:
    """The sum of weighted gains, and samples and GB taken on top of 5 and 7."""
    samples, gigabytes = np.full_like(market.lam, 5.0), np.full_like(market.phi, 7.0)
    columns, spent = held(market), np.empty(len(market.tasks))
    respond(
        *columns, market.weights, market.supply.energy, market.lam, market.phi, relaxed,
        samples, gigabytes, spent,
    )  # fmt: skip
    return float(market.weights @ (columns.bid - spent)), samples - 5.0, gigabytes - 7.0


@drawn(40)
@given(market=priced_markets())
def test_gains_are_those_of_the_best_schedules(market: PricedMarket) -> None:
    best = market.gain(market.lam, market.phi)
    assert answers(market)[0] == pytest.approx(best, abs=1e-8)


@drawn(40)
@given(market=priced_markets(max_tasks=1))
def test_what_a_task_takes_is_paid_for_from_its_bid(market: PricedMarket) -> None:
    gain, samples, gigabytes = answers(market)
    assert (samples >= 0).all()
    assert (gigabytes >= 0).all()
    if gain == 0.0:
        assert not samples.any()
        assert not gigabytes.any()
        return
    task, times = market.tasks[0], market.weights[0]
    assert samples.sum() >= times * task.work * (1 - 2e-9)
    slots = np.flatnonzero(samples.any(axis=1))
    assert task.arrival <= slots[0]
    assert slots[-1] <= task.deadline
    prices = (market.lam * samples + market.phi * gigabytes).sum()
    assert gain + prices <= times * float(task.bid) + 1e-9


@drawn(30)
@given(market=priced_markets())
def test_tasks_answer_one_by_one(market: PricedMarket) -> None:
    together = answers(market)
    alone = [
        answers(replace(market, tasks=[task], weights=market.weights[i : i + 1]))
        for i, task in enumerate(market.tasks)
    ]
    for place in range(3):
        summed = sum((answer[place] for answer in alone), start=np.zeros(1))
        np.testing.assert_allclose(together[place], summed, atol=1e-9)


@drawn(40)
@given(market=priced_markets())
def test_relaxed_answers_gain_no_less_and_are_exact_where_one_type_can_run(
    market: PricedMarket,
) -> None:
    exact, relaxed = answers(market)[0], answers(market, relaxed=True)[0]
    assert relaxed >= exact - 1e-9
    if (held(market).throughput > 0).sum(axis=1).max() <= 1:
        assert relaxed == exact


def test_a_cell_whose_own_cost_is_more_than_the_bid_is_cut_by_no_answer() -> None:
    kinds = {name: NodeType(10.0, 9.0, (0.0,)) for name in "ab"}
    cluster = Cluster(1, 60.0, 1.0, kinds, (Node("n", "a"), Node("m", "b")))
    own = {"a": (11.0,), "b": (12.0,)}
    task = Task("t", 0, 0, 1.0, 2.0, Decimal(10), {"a": 2.0, "b": 4.0}, operating_cost=own)
    zeros = np.zeros((1, 2))
    market = PricedMarket(cluster, [task], np.ones(1), zeros, zeros, zeros, zeros)
    # Half of the cell would do the work for 5.5.
    assert answers(market, relaxed=True)[0] == 0.0


CLUSTER = Cluster(3, 60.0, 1.0, {"gpu": NodeType(10.0, 9.0, (1.0, 1.0, 1.0))}, (Node("n", "gpu"),))
TASK = Task("t", 0, 2, 10.0, 2.0, Decimal(10), {"gpu": 5.0})


def named(task: Task, *, lam: list[float]) -> PricedMarket:
    prices, zeros = np.array(lam)[:, None], np.zeros((3, 1))
    return PricedMarket(CLUSTER, [task], np.ones(1), prices, zeros, zeros, zeros)


def test_the_cheapest_slots_are_taken_energy_included() -> None:
    gain, samples, _ = answers(named(TASK, lam=[0.5, 0.4, 0.4]))
    # Two cells of 5 samples at 0.4 each, and half of a node's energy twice.
    assert gain == pytest.approx(10 - 2 * (2.0 + 0.5))
    assert samples.ravel().tolist() == [0.0, 5.0, 5.0]


def test_nothing_runs_while_the_vendor_works() -> None:
    slow = replace(TASK, quotes=(Quote("v", Decimal(1), 1),))
    gain, samples, _ = answers(named(slow, lam=[0.0, 0.0, 0.0]))
    assert gain == pytest.approx(10 - 1 - 2 * 0.5)
    assert samples.ravel().tolist() == [0.0, 5.0, 5.0]
    slower = replace(TASK, quotes=(Quote("v", Decimal(1), 2),))
    assert answers(named(slower, lam=[0.0, 0.0, 0.0]))[0] == 0.0


def test_a_task_with_costs_of_its_own_pays_those_for_energy() -> None:
    own = replace(TASK, operating_cost={"gpu": (3.0, 0.25, 0.5)})
    assert answers(named(own, lam=[0.0, 0.0, 0.0]))[0] == pytest.approx(10 - 0.75)


def test_too_many_counts_of_cells_give_a_little_more_than_the_best_schedule() -> None:
    rng = np.random.default_rng(4)
    # 8 counts of each of 5 types are beyond what is kept; 6^7 schedules can still be tried.
    slots, types = 7, [f"type{k}" for k in range(5)]
    kinds = {name: NodeType(10.0, 9.0, (0.0,) * slots) for name in types}
    nodes = tuple(Node(name, name) for name in types)
    cluster = Cluster(slots, 60.0, 1.0, kinds, nodes)
    speed = dict(zip(types, [0.6, 0.7, 0.8, 0.9, 2.0], strict=True))
    task = Task("t", 0, 6, 6.5, 1.0, Decimal(20), speed)
    lam, zeros = rng.uniform(0.5, 1.5, (slots, 5)), np.zeros((slots, 5))
    market = PricedMarket(cluster, [task], np.ones(1), lam, zeros, zeros, zeros)
    samples = np.array(list(speed.values()))
    best = 20 - least_cost(lam * samples, samples, task.work)
    gain = answers(market)[0]
    assert best - 1e-9 <= gain <= best + 0.05 * (20 - best)
