"""The printed recursion (13): as a plain reading of it, feasible, and no cheaper than the least."""

import math
from decimal import Decimal

import numpy as np
import pytest

from auctune.auction import PdftspParams
from auctune.auction.ledger import CapacityLedger
from auctune.auction.search import ScheduleSearch
from auctune.domain import Cell, Cluster, InputError, Node, NodeType, Task
from support.brute_force import Market, all_choices, market_of, operating_cost
from support.random_states import random_state
from support.thorough import times

State = tuple[float, float, float, tuple[tuple[int, int], ...]]


def recursion(market: Market, task: Task, first: int) -> tuple[tuple[int, int], ...] | None:
    """The cells that dp[d, W] stands for, of a market of one node type; W counts cells."""
    cluster = market.cluster
    samples = task.throughput[cluster.nodes[0].type]
    needed = math.ceil(task.work * (1 - 1e-9) / samples)
    dp: list[State] = [(0.0, 0.0, 0.0, ()), *[(math.inf, 0.0, 0.0, ())] * needed]
    for slot in range(first, task.deadline + 1):
        before = list(dp)
        for w in range(1, needed + 1):
            cost, lam, phi, cells = before[w - 1]
            for n, node in enumerate(cluster.nodes):
                lam_hat = max(lam, market.lam[Cell(slot, node.id)])
                phi_hat = max(phi, market.phi[Cell(slot, node.id)])
                operating = operating_cost(cluster, task, node.type, slot)
                delta = samples * lam_hat + task.memory_gb * phi_hat + operating
                if cost + delta < dp[w][0] * (1 - 1e-12):
                    dp[w] = (cost + delta, lam_hat, phi_hat, (*cells, (slot, n)))
    return dp[needed][3] or None


@pytest.mark.slow
def test_the_kernel_is_the_recursion_and_never_beats_the_exact_search() -> None:
    rng = np.random.default_rng(13)
    num_found = num_dearer = 0
    for _ in range(times(300)):
        ledger, task, lam, phi = random_state(rng, 1, slots=5)
        # No ties: the recursion says nothing of which of two equal states it keeps.
        lam, phi = rng.uniform(0, 1, (2, *lam.shape))
        searches = [
            ScheduleSearch(ledger, lam, phi, aggregate="max", masked=False, exact=exact)
            for exact in (True, False)
        ]
        request = searches[0].request(task, task.arrival)
        best, printed = (search.find(request, task) for search in searches)
        assert (best is None) == (printed is None)
        if best is None or printed is None:
            continue
        market = market_of(ledger, lam, phi)
        delays = [quote.delay for quote in task.quotes] or [0]
        plans = {
            i: cells
            for i, delay in enumerate(delays)
            if (cells := recursion(market, task, task.arrival + delay)) is not None
        }
        choices = list(all_choices(market, task, aggregate="max", masked=False))
        feasible = {choice.cells for choice in choices}
        costs = [choice.cost for choice in choices if plans.get(choice.quote) == choice.cells]
        # Nodes that are no dearer than the maxima so far tie: the cost is one, the node is not.
        assert printed.cost == pytest.approx(min(costs), rel=1e-9)
        cells = tuple(zip(printed.slots.tolist(), printed.nodes.tolist(), strict=True))
        assert cells in feasible
        assert printed.cost >= best.cost * (1 - 1e-9)
        num_found += 1
        num_dearer += printed.cost > best.cost * (1 + 1e-9)
    assert num_found > 50
    assert num_dearer > 5


def test_the_recursion_misses_a_schedule_that_a_dear_first_cell_makes_cheap() -> None:
    cluster = Cluster(3, 60.0, 0.0, {"a": NodeType(1.0, 1.0, (0.4, 0.0, 0.3))}, (Node("n", "a"),))
    ledger = CapacityLedger(cluster, prune=False)
    task = Task("t", 0, 2, 2.0, 0.0, Decimal(9), {"a": 1.0})
    lam, phi = np.array([[0.0], [1.0], [1.0]]), np.zeros((3, 1))
    # 0.4 + 0 + 2 * 1 against 0 + 0.3 + 2 * 1: the recursion charges slot 0 nothing for lam_hat = 1.
    for exact, slots, cost in ((True, [1, 2], 2.3), (False, [0, 1], 2.4)):
        search = ScheduleSearch(ledger, lam, phi, aggregate="max", masked=True, exact=exact)
        found = search.find(search.request(task, 0), task)
        assert found is not None
        assert found.slots.tolist() == slots
        assert found.cost == pytest.approx(cost)


@pytest.mark.parametrize("num_types", [2, 3])
def test_with_several_types_its_schedules_do_the_work(num_types: int) -> None:
    rng = np.random.default_rng(num_types)
    num_found = 0
    for _ in range(times(100)):
        ledger, task, lam, phi = random_state(rng, num_types, slots=5)
        search = ScheduleSearch(ledger, lam, phi, aggregate="max", masked=True, exact=False)
        found = search.find(search.request(task, task.arrival), task)
        if found is None:
            continue
        num_found += 1
        done = ledger.throughput(task)[ledger.capacity.type_of[found.nodes]].sum()
        assert done >= task.work * (1 - 1e-9)
        assert len(set(found.slots.tolist())) == len(found.slots)
        assert ledger.has_room(found.slots, found.nodes, ledger.throughput(task), task.memory_gb)
    assert num_found > 20


def test_it_is_of_maxima_alone() -> None:
    with pytest.raises(InputError, match=r"search: 'printed' is of maxima; expected aggregate=max"):
        PdftspParams(search="printed")
    with pytest.raises(InputError, match="search: 'best'; expected one of exact, printed"):
        PdftspParams(search="best")  # type: ignore[arg-type]
