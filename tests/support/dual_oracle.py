"""The oracle of the Lagrangian dual: every schedule by node type, priced by the definition.

 D(lam, phi) = sum_i w_i v_i + sum_tk (lam_tk * compute_tk + phi_tk * memory_tk),
 v_i = max(0, b_i - min over vendors and schedules of q + sum (e + lam * s + phi * r)),
with compute and memory of all nodes of a type in a slot. All choices of a type or nothing in each
slot are added up as one array that grows by a factor a slot; nothing is shared with the kernels.
"""

import numpy as np

from auctune.domain import Cluster, Task
from auctune.numerics.arrays import Floats
from support.brute_force import operating_cost

SLACK = 1e-9
"""Relative slack of work and of capacity, by which sums of floats may miss them."""


def least_cost(weight: Floats, speed: Floats, work: float) -> float:
    """Cost of the cheapest schedule in these slots that does the work; infinite if none does.

    Args:
        weight: [slots, K] of a cell.
        speed: [K] samples of a cell; 0 for a type that cannot run the task.
        work: samples.
    """
    able = np.flatnonzero(speed > 0)
    cost, done = np.zeros(1), np.zeros(1)
    for row in weight:
        cost = np.add.outer(cost, np.append(row[able], 0.0)).ravel()
        done = np.add.outer(done, np.append(speed[able], 0.0)).ravel()
    return float(cost[done >= work * (1 - SLACK)].min(initial=np.inf))


def best_surplus(cluster: Cluster, task: Task, lam: Floats, phi: Floats) -> float:
    """v of a task at prices [T, K]."""
    kinds = list(cluster.node_types)
    speed = np.array([task.throughput[k] if holds(cluster, task, k) else 0.0 for k in kinds])
    weight = lam * speed + phi * task.memory_gb
    for column, kind in enumerate(kinds):
        if speed[column] > 0:
            weight[:, column] += [
                operating_cost(cluster, task, kind, slot) for slot in range(cluster.slots)
            ]
    offers = [(quote.delay, float(quote.price)) for quote in task.quotes] or [(0, 0.0)]
    costs = [
        price + least_cost(weight[task.arrival + delay : end], speed, task.work)
        for delay, price in offers
        for end in [task.deadline + 1]
    ]
    return max(0.0, float(task.bid) - min(costs))


def sold(cluster: Cluster, lam: Floats, phi: Floats) -> float:
    """What all nodes bring if every cell is sold at prices [T, K]."""
    counts = np.array([sum(n.type == name for n in cluster.nodes) for name in cluster.node_types])
    kinds = cluster.node_types.values()
    compute = counts * [kind.compute for kind in kinds]
    memory = counts * [kind.memory_gb - cluster.base_memory_gb for kind in kinds]
    return float((lam * compute + phi * memory).sum())


def holds(cluster: Cluster, task: Task, name: str) -> bool:
    """Whether there is a node of this type that can hold the task."""
    if name not in task.throughput or all(node.type != name for node in cluster.nodes):
        return False
    kind = cluster.node_types[name]
    room = (kind.memory_gb - cluster.base_memory_gb) * (1 + SLACK)
    return task.memory_gb <= room and task.throughput[name] <= kind.compute * (1 + SLACK)
