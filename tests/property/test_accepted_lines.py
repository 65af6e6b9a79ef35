"""A line of a menu that is accepted is run and charged as shown, or nothing happens."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from auctune.auction.ledger import CapacityLedger
from auctune.domain import (
    Cell,
    Cluster,
    InputError,
    MenuLine,
    PriceMenu,
    Schedule,
    Task,
    write_snapshot,
)
from auctune.domain.money import STEP
from support.markets import random_market
from support.mechanisms import AUCTIONS, MECHANISMS, Make
from support.playing import offer_all
from support.recording import Recorder
from support.thorough import rotated


def plan_costs(
    ledger: CapacityLedger, task: Task, line: MenuLine, prices: tuple[np.ndarray, ...]
) -> float:
    """What the line's cells cost at prices summed by cell, from the domain's types alone."""
    lam, phi = prices
    cluster, total = ledger.cluster, 0.0
    types = {node.id: node.type for node in cluster.nodes}
    nodes = [node.id for node in cluster.nodes]
    for slot, node in line.schedule.cells:
        kind = types[node]
        own = (task.operating_cost or {}).get(kind)
        energy = cluster.node_types[kind].energy_cost[slot]
        share = task.throughput[kind] / cluster.node_types[kind].compute
        total += energy * share if own is None else own[slot]
        total += lam[slot, nodes.index(node)] * task.throughput[kind]
        total += phi[slot, nodes.index(node)] * task.memory_gb
    vendors = {quote.vendor: float(quote.price) for quote in task.quotes}
    return total + vendors.get(line.schedule.vendor or "", 0.0)


@pytest.mark.parametrize("make", rotated(AUCTIONS).values(), ids=rotated(AUCTIONS))
def test_a_line_taken_at_once_is_what_an_offer_by_its_deadline_would_get(make: Make) -> None:
    rng = np.random.default_rng(51)
    taken = 0
    for _ in range(4):
        market = random_market(rng)
        by_menu, by_bid = make(market.cluster), make(market.cluster)
        for task in market.tasks:
            menu = by_menu.quote(task, task.arrival)
            if not menu.lines:
                continue
            line = menu.lines[int(rng.integers(0, len(menu.lines)))]
            # Above the running cost as well, which the paper's payment leaves out.
            rich = replace(task, bid=line.price + 20, deadline=line.deadline)
            decision = by_menu.take(rich, line, task.arrival)
            assert decision is not None
            assert decision == by_bid.offer(rich, task.arrival)
            taken += 1
    assert taken > 30


@pytest.mark.parametrize("name", rotated(MECHANISMS))
def test_old_lines_are_honoured_or_leave_no_trace(name: str) -> None:
    rng = np.random.default_rng(52)
    honoured = refused = 0
    for _ in range(5):
        market = random_market(rng, num_tasks=40)
        recorder = Recorder(MECHANISMS[name](market.cluster), market.cluster)
        menus: list[tuple[Task, PriceMenu]] = []
        for task in market.tasks[:34]:
            now = task.arrival
            if menus and rng.random() < 0.5:
                asked, menu = menus.pop(int(rng.integers(0, len(menus))))
                line = menu.lines[-1]
                asked = replace(asked, bid=line.price + Decimal(50), deadline=line.deadline)
                recorder.mechanism.advance(now)
                before = write_snapshot(recorder.mechanism.save())
                decision = recorder.take(asked, line, now)
                if decision is None:
                    assert write_snapshot(recorder.mechanism.save()) == before
                    refused += 1
                else:
                    assert (decision.payment, decision.schedule) == (line.price, line.schedule)
                    assert decision.price is not None
                    # The paper's payment leaves the running cost out, a price does not.
                    assert decision.price <= line.price or name.startswith("paper")
                    honoured += 1
            menu = recorder.mechanism.quote(task, now)
            if menu.lines:
                menus.append((task, menu))
            else:
                recorder.offer(task, now)
    if name in AUCTIONS:
        assert honoured > 5
        assert refused > 5
    else:
        assert honoured == refused == 0


def test_the_price_of_a_taken_plan_is_that_of_its_cells() -> None:
    market = random_market(np.random.default_rng(54), num_tasks=60)
    mechanism = AUCTIONS["critical-masked-sum-set-range"](market.cluster)
    offer_all(mechanism, market.tasks[:15])
    ledger = CapacityLedger(market.cluster, prune=False)
    taken = 0
    for task in market.tasks[15:]:
        menu = mechanism.quote(task, task.arrival)
        for line in menu.lines:
            state = mechanism.state()
            generous = replace(line, price=line.price + 5)
            decision = mechanism.take(replace(task, bid=Decimal(100)), generous, task.arrival)
            if decision is None:
                continue
            expected = plan_costs(ledger, task, line, (state.compute_price, state.memory_price))
            assert decision.price is not None
            assert float(decision.price) == pytest.approx(expected, abs=1e-4)
            assert decision.payment == generous.price
            taken += 1
    assert taken > 10


CLUSTER = random_market(np.random.default_rng(55), max_types=1, slots=10).cluster
ONE = Task("one", 1, 6, 2.0, 0.5, Decimal(90), {"type0": 2.0})


def line_of(cluster: Cluster, task: Task) -> tuple[MenuLine, ...]:
    return MECHANISMS["critical-masked-sum-set-range"](cluster).quote(task, task.arrival).lines


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule((Cell(3, "nowhere"),)),
        Schedule((Cell(3, "n0"),), "vendor"),
        Schedule((Cell(1, "n0"),)),
        Schedule((Cell(7, "n0"),)),
    ],
    ids=["unknown node", "unknown vendor", "passed", "after the deadline"],
)
def test_a_plan_that_the_task_cannot_run_by_is_not_taken(schedule: Schedule) -> None:
    mechanism = MECHANISMS["critical-masked-sum-set-range"](CLUSTER)
    line = MenuLine(schedule.finish, Decimal(80), schedule)
    mechanism.advance(2)
    before = write_snapshot(mechanism.save())
    assert mechanism.take(ONE, line, 2) is None
    assert write_snapshot(mechanism.save()) == before
    assert mechanism.take(ONE, replace(line, schedule=Schedule((Cell(3, "n0"),))), 2) is not None


def test_a_plan_that_leaves_work_undone_is_not_taken() -> None:
    mechanism = MECHANISMS["critical-masked-sum-set-range"](CLUSTER)
    line = MenuLine(3, Decimal(80), Schedule((Cell(3, "n0"),)))
    assert mechanism.take(replace(ONE, work=4.0), line, 2) is None


def test_a_bid_below_the_line_is_refused() -> None:
    mechanism = MECHANISMS["critical-masked-sum-set-range"](CLUSTER)
    line = line_of(CLUSTER, ONE)[0]
    with pytest.raises(InputError, match=r"bid: .* at least the line's price"):
        mechanism.take(replace(ONE, bid=line.price - STEP), line, 1)
    assert mechanism.take(replace(ONE, bid=line.price), line, 1) is not None


def test_a_node_that_was_lost_takes_its_lines_with_it() -> None:
    mechanism = MECHANISMS["critical-masked-sum-set-range"](CLUSTER)
    line = line_of(CLUSTER, ONE)[-1]
    mechanism.lose_node(line.schedule.cells[0].node, 1, [])
    assert mechanism.take(ONE, line, 1) is None


def test_a_bid_by_menu_counts_for_learning_like_any_other() -> None:
    tasks = [replace(ONE, id=f"t{i}", bid=Decimal(90 + i)) for i in range(5)]
    prices = []
    for by_menu in (False, True):
        mechanism = MECHANISMS["critical-masked-max-revealed-range"](CLUSTER)
        for task in tasks:
            lines = mechanism.quote(task, 1).lines
            if by_menu and lines:
                assert mechanism.take(task, lines[-1], 1) is not None
            else:
                mechanism.offer(task, 1)
        mechanism.advance(2)
        prices.append(mechanism.state().compute_price)
    assert prices[0].max() > 0
    np.testing.assert_array_equal(prices[0], prices[1])
