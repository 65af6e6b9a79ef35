"""What the dual reads: bids as columns, and the supply by slot and node type."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from auctune.domain import Cluster, Task
from auctune.numerics.arrays import FIT, Floats, Ints


class TaskColumns(NamedTuple):
    """Tasks, as arrays.

    A task whose data need no work has one quote, of price and delay 0.
    """

    arrival: Ints  # [I] slots
    deadline: Ints  # [I] slots, inclusive
    work: Floats  # [I] samples
    memory_gb: Floats  # [I]
    bid: Floats  # [I] money
    throughput: Floats  # [I, K] samples per slot; 0 where it cannot run
    first_quote: Ints  # [I + 1] where a task's quotes start
    quote_price: Floats  # [Q] money
    quote_delay: Ints  # [Q] slots
    own_cost: Ints  # [I] row of its own operating costs, or -1
    costs: Floats  # [P, K, T] money per slot

    @property
    def num_tasks(self) -> int:
        return len(self.work)


def to_columns(tasks: Sequence[Task], cluster: Cluster) -> TaskColumns:
    """Return the columns of these tasks, in their order."""
    names = tuple(cluster.node_types)
    quotes = [[(float(q.price), q.delay) for q in task.quotes] or [(0.0, 0)] for task in tasks]
    flat = [quote for own in quotes for quote in own]
    with_costs = [task for task in tasks if task.operating_cost is not None]
    own_cost = np.full(len(tasks), -1, dtype=np.int64)
    own_cost[[task.operating_cost is not None for task in tasks]] = np.arange(len(with_costs))
    return TaskColumns(
        arrival=np.array([task.arrival for task in tasks], dtype=np.int64),
        deadline=np.array([task.deadline for task in tasks], dtype=np.int64),
        work=np.array([task.work for task in tasks], dtype=np.float64),
        memory_gb=np.array([task.memory_gb for task in tasks], dtype=np.float64),
        bid=np.array([float(task.bid) for task in tasks], dtype=np.float64),
        throughput=np.array(
            [[task.throughput.get(name, 0.0) for name in names] for task in tasks],
            dtype=np.float64,
        ).reshape(len(tasks), len(names)),
        first_quote=np.concatenate(([0], np.cumsum([len(own) for own in quotes]))).astype(np.int64),
        quote_price=np.array([price for price, _ in flat], dtype=np.float64),
        quote_delay=np.array([delay for _, delay in flat], dtype=np.int64),
        own_cost=own_cost,
        costs=_own_costs(with_costs, cluster),
    )


def _own_costs(tasks: Sequence[Task], cluster: Cluster) -> Floats:
    costs = np.zeros((len(tasks), len(cluster.node_types), cluster.slots))
    for row, task in enumerate(tasks):
        assert task.operating_cost is not None
        for k, (name, kind) in enumerate(cluster.node_types.items()):
            if name in task.operating_cost:
                costs[row, k] = task.operating_cost[name]
            else:
                share = task.throughput.get(name, 0.0) / kind.compute
                costs[row, k] = share * np.array(kind.energy_cost)
    return costs


# Sums of whole nodes that are each filled to (1 + FIT) of their capacity.
_ROUNDING = 1 + 2 * FIT


class Supply(NamedTuple):
    """T slots of K node types."""

    compute: Floats  # [T, K] samples that can be sold
    memory: Floats  # [T, K] GB
    energy: Floats  # [T, K] money that a sample costs the operator
    node_compute: Floats  # [K] samples that one node can hold; 0 for a type without nodes
    node_memory: Floats  # [K] GB


def whole_supply(cluster: Cluster) -> Supply:
    """Return an empty cluster."""
    kinds = list(cluster.node_types.values())
    compute = np.array([kind.compute for kind in kinds])
    memory = np.array([kind.memory_gb - cluster.base_memory_gb for kind in kinds])
    counts = np.array(
        [sum(node.type == name for node in cluster.nodes) for name in cluster.node_types]
    )
    energy = np.array([kind.energy_cost for kind in kinds]).T / compute
    return Supply(
        np.tile(counts * compute * _ROUNDING, (cluster.slots, 1)),
        np.tile(counts * memory * _ROUNDING, (cluster.slots, 1)),
        np.ascontiguousarray(energy),
        np.where(counts > 0, compute, 0.0),
        memory,
    )
