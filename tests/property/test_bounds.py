"""Bounds against each other and against mechanisms: optimum <= relaxation <= lp <= all bids."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given

from auctune.auction.offline import offline_optimum
from auctune.domain import Cluster, Task
from auctune.sim.bound import bound_kinds, welfare_bound
from auctune.sim.engine import simulate
from auctune.sim.instance import Instance
from auctune.sim.metrics import measure
from support.instances import instances
from support.markets import random_market
from support.mechanisms import MECHANISMS
from support.schedule_relaxation import relaxed_welfare
from support.thorough import drawn, rotated

KINDS = [kind for kind in bound_kinds() if kind != "none"]


def all_bids(tasks: Sequence[Task]) -> float:
    return float(sum(task.bid for task in tasks))


def bound(kind: str, cluster: Cluster, tasks: Sequence[Task]) -> float:
    found = welfare_bound(kind, Instance(cluster, tuple(tasks)))
    assert found.kind == kind
    assert found.value is not None
    return found.value


@pytest.mark.slow
@drawn(80)
@given(instance=instances(max_tasks=5))
def test_bounds_are_in_their_order_on_degenerate_markets(
    instance: tuple[Cluster, list[Task]],
) -> None:
    cluster, tasks = instance
    optimum = offline_optimum(cluster, tasks)
    relaxed = relaxed_welfare(cluster, tasks)
    slack = 1e-6 * max(1.0, relaxed)
    assert optimum.welfare <= bound("milp", cluster, tasks) <= relaxed + slack + 1e-4
    assert relaxed <= bound("lp", cluster, tasks) + slack
    assert bound("lp", cluster, tasks) <= all_bids(tasks) + slack


@pytest.mark.parametrize("seed", range(16))
def test_bounds_are_in_their_order_on_crowded_markets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    market = random_market(rng, slots=6, num_tasks=int(rng.integers(5, 30)))
    optimum = offline_optimum(market.cluster, market.tasks)
    relaxed = relaxed_welfare(market.cluster, market.tasks)
    linear = bound("lp", market.cluster, market.tasks)
    assert optimum.welfare <= relaxed * (1 + 1e-6) <= linear * (1 + 2e-6)
    assert linear <= all_bids(market.tasks) + 1e-6
    # It is worth something: not far above the best relaxation by node type.
    assert linear <= 1.05 * relaxed


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_mechanism_has_more_welfare_than_any_bound(kind: str) -> None:
    for seed in range(6):
        market = random_market(np.random.default_rng(100 + seed), num_tasks=25)
        most = bound(kind, market.cluster, market.tasks)
        for name, make in rotated(MECHANISMS).items():
            report = measure(simulate(market, make(market.cluster)))
            assert report.welfare <= most, (name, seed)
