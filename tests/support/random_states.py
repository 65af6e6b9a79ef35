"""Seeded random states of a market in which nothing is degenerate: cells sold, prices, a task."""

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from auctune.auction.ledger import CapacityLedger
from auctune.domain import Cluster, Node, NodeType, Quote, Task

Floats = NDArray[np.float64]


def random_state(
    rng: np.random.Generator, num_types: int, *, slots: int = 5, nodes: int = 4
) -> tuple[CapacityLedger, Task, Floats, Floats]:
    """A ledger with about half of it sold, prices between 0 and 1, and a task that often fits."""
    types = {
        f"type{k}": NodeType(
            compute=float(rng.uniform(4, 12)),
            memory_gb=float(1 + rng.uniform(3, 8)),
            energy_cost=rng.uniform(0, 1, slots).tolist(),
        )
        for k in range(num_types)
    }
    kinds = rng.permutation([k % num_types for k in range(nodes)])
    cluster = Cluster(
        slots, 60.0, 1.0, types, tuple(Node(f"n{i}", f"type{k}") for i, k in enumerate(kinds))
    )
    ledger = CapacityLedger(cluster, prune=False)
    for slot in range(slots):
        for node in range(nodes):
            k = ledger.capacity.type_of[node]
            share = rng.uniform(0, 0.8, 2)
            sold = np.full(num_types, share[0] * ledger.capacity.compute[k])
            memory = float(share[1] * ledger.capacity.memory[k])
            ledger.allocate(np.array([slot]), np.array([node]), sold, memory)
    lam, phi = rng.uniform(0, 1, (2, slots, nodes))
    if rng.random() < 0.3:  # few levels: many ties between thresholds
        lam, phi = np.round(lam, 1), np.round(phi, 1)
    return ledger, random_task(rng, cluster), lam, phi


def random_task(rng: np.random.Generator, cluster: Cluster) -> Task:
    """A task whose window is most of the horizon."""
    names = list(cluster.node_types)
    able = [name for name in names if rng.random() < 0.8] or names[:1]
    arrival = int(rng.integers(0, 2))
    return Task(
        id="t",
        arrival=min(arrival, cluster.slots - 1),
        deadline=int(rng.integers(max(arrival, cluster.slots - 2), cluster.slots)),
        work=float(rng.uniform(1, 10)),
        memory_gb=float(rng.uniform(0.1, 2)),
        bid=Decimal("10.0000"),
        throughput={name: float(rng.uniform(1, 4)) for name in able},
        quotes=tuple(
            Quote(f"v{i}", Decimal(int(rng.integers(0, 20000))).scaleb(-4), int(rng.integers(0, 3)))
            for i in range(rng.integers(0, 4))
        ),
    )
