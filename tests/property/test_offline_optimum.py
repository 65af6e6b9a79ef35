"""The offline optimum against every way to admit the tasks, and against every mechanism."""

import math

import numpy as np
import pytest
from hypothesis import given

from auctune.auction.offline import OfflineOptimum, offline_optimum
from auctune.domain import Cluster, Task
from auctune.numerics.highs import SolveOptions
from auctune.sim.engine import simulate
from auctune.sim.feasibility import violations
from auctune.sim.instance import Instance
from auctune.sim.metrics import measure
from support.best_welfare import best_welfare
from support.instances import instances
from support.markets import random_market
from support.mechanisms import MECHANISMS
from support.thorough import drawn, rotated, times


def check(cluster: Cluster, tasks: list[Task], found: OfflineOptimum) -> None:
    assert violations(cluster, tasks, found.decisions) == []
    values = [decision.value for decision in found.decisions if decision.value is not None]
    assert found.welfare == pytest.approx(math.fsum(values))
    assert found.welfare <= found.bound


@drawn(250)
@given(instance=instances(max_slots=3, max_nodes=3, max_tasks=3))
def test_it_is_the_best_of_all_ways_to_admit(instance: tuple[Cluster, list[Task]]) -> None:
    cluster, tasks = instance
    found = offline_optimum(cluster, tasks)
    check(cluster, tasks, found)
    assert found.optimal
    assert found.welfare == pytest.approx(best_welfare(cluster, tasks), abs=1e-5)
    assert found.bound == pytest.approx(found.welfare, abs=1e-4)


@pytest.mark.parametrize("seed", range(times(40)))
def test_no_mechanism_has_more_welfare(seed: int) -> None:
    rng = np.random.default_rng(seed)
    market = random_market(rng, num_tasks=int(rng.integers(5, 25)))
    found = offline_optimum(market.cluster, market.tasks)
    check(market.cluster, list(market.tasks), found)
    assert found.optimal
    for name, make in rotated(MECHANISMS).items():
        report = measure(simulate(market, make(market.cluster)))
        assert report.welfare <= found.bound, name


def test_a_stopped_search_says_so_and_its_bound_still_holds() -> None:
    market = crowded_market()
    best = offline_optimum(market.cluster, market.tasks)
    stopped = offline_optimum(market.cluster, market.tasks, SolveOptions(max_nodes=0))
    check(market.cluster, list(market.tasks), stopped)
    assert best.optimal
    assert not stopped.optimal
    assert stopped.welfare <= best.welfare <= stopped.bound
    assert stopped.gap == pytest.approx(1 - stopped.welfare / stopped.bound)


def crowded_market() -> Instance:
    """One whose optimum the first relaxation does not find."""
    return random_market(np.random.default_rng(0), slots=12, nodes=4, num_tasks=40, max_types=2)
