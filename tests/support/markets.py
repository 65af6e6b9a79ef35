"""Seeded random markets that fill up: some tens of bids for a few nodes."""

import math
from decimal import Decimal

import numpy as np

from auctune.domain import Cluster, Node, NodeType, Quote, Task
from auctune.sim.instance import Instance


def random_market(
    rng: np.random.Generator,
    *,
    slots: int = 10,
    nodes: int = 3,
    num_tasks: int = 25,
    max_types: int = 3,
) -> Instance:
    """A market with 1 to `max_types` node types, about three times as much asked as there is."""
    num_types = int(rng.integers(1, max_types + 1))
    types = {
        f"type{k}": NodeType(
            compute=float(rng.uniform(4, 12)),
            memory_gb=float(1 + rng.uniform(3, 8)),
            energy_cost=tuple(rng.uniform(0, 1, slots).tolist()),
        )
        for k in range(num_types)
    }
    kinds = rng.permutation([k % num_types for k in range(max(nodes, num_types))])
    cluster = Cluster(
        slots, 60.0, 1.0, types, tuple(Node(f"n{i}", f"type{k}") for i, k in enumerate(kinds))
    )
    drawn = [random_bid(rng, cluster, f"t{index}") for index in range(num_tasks)]
    return Instance(cluster, tuple(sorted(drawn, key=lambda task: task.arrival)))


def random_bid(rng: np.random.Generator, cluster: Cluster, name: str) -> Task:
    """A task that often fits, with a bid around what it may cost."""
    kinds = list(cluster.node_types)
    able = [kind for kind in kinds if rng.random() < 0.8] or kinds[:1]
    arrival = int(rng.integers(0, cluster.slots))
    own_cost = None
    if rng.random() < 0.2:
        own_cost = {able[0]: tuple(rng.uniform(0, 1, cluster.slots).tolist())}
    return Task(
        id=name,
        arrival=arrival,
        deadline=min(cluster.slots - 1, arrival + int(rng.integers(0, 8))),
        work=float(rng.uniform(1, 12)),
        memory_gb=float(rng.choice([0.0, rng.uniform(0.1, 3)], p=[0.1, 0.9])),
        bid=money(float(rng.uniform(0, 12))),
        throughput={kind: float(rng.uniform(1, 4)) for kind in able},
        quotes=tuple(
            Quote(f"v{i}", money(float(rng.uniform(0, 2))), int(rng.integers(0, 3)))
            for i in range(rng.integers(0, 4))
        ),
        operating_cost=own_cost,
    )


def money(amount: float) -> Decimal:
    """`amount` with 4 decimals, rounded down."""
    return Decimal(math.floor(amount * 10_000)).scaleb(-4)
