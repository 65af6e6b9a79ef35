"""The oracle of linear bounds: every schedule by node type is a column, and tasks may be split.

 maximize   sum of value * x  over tasks i, vendors and schedules l by (slot, type)
 subject to sum over the columns of i <= 1,
            samples and GB in each (slot, type) <= what all nodes of the type have,  x >= 0.

All columns are there from the start, found by trying every choice of a type or nothing in each
slot: for tiny markets only. No Lagrangian bound by node type is below it.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import lil_array

from auctune.domain import Cluster, Task
from support.brute_force import operating_cost

Floats = NDArray[np.float64]
Column = tuple[int, float, list[tuple[int, str]]]


@dataclass(frozen=True)
class Relaxed:
    """The optimum of the relaxation and its shadow prices.

    Attributes:
        welfare: money.
        lam: [T, K] money per sample.
        phi: [T, K] money per GB-slot.
    """

    welfare: float
    lam: Floats
    phi: Floats


def relaxed_welfare(cluster: Cluster, tasks: Sequence[Task]) -> float:
    """The optimum of the relaxation, money."""
    return solve_relaxation(cluster, tasks).welfare


def solve_relaxation(cluster: Cluster, tasks: Sequence[Task]) -> Relaxed:
    """The optimum of the relaxation, with the duals that prove it."""
    shape = (cluster.slots, len(cluster.node_types))
    columns = [
        (index, value, cells)
        for index, task in enumerate(tasks)
        for value, cells in _schedules(cluster, task)
        if value > 0
    ]
    if not columns:
        return Relaxed(0.0, np.zeros(shape), np.zeros(shape))
    places = list(itertools.product(range(cluster.slots), cluster.node_types))
    row_of = {place: row for row, place in enumerate(places)}
    matrix = lil_array((len(tasks) + 2 * len(places), len(columns)))
    for column, (index, _, cells) in enumerate(columns):
        matrix[index, column] = 1.0
        for slot, kind in cells:
            row = len(tasks) + row_of[slot, kind]
            matrix[row, column] = tasks[index].throughput[kind]
            matrix[row + len(places), column] = tasks[index].memory_gb
    room = [_room(cluster, kind) for _, kind in places]
    limits = [1.0] * len(tasks) + [compute for compute, _ in room] + [gb for _, gb in room]
    found = linprog([-value for _, value, _ in columns], A_ub=matrix.tocsr(), b_ub=np.array(limits))
    prices = -found.ineqlin.marginals[len(tasks) :].reshape(2, *shape)
    return Relaxed(-float(found.fun), prices[0], prices[1])


def _room(cluster: Cluster, kind: str) -> tuple[float, float]:
    count = sum(node.type == kind for node in cluster.nodes)
    node_type = cluster.node_types[kind]
    return count * node_type.compute, count * (node_type.memory_gb - cluster.base_memory_gb)


def _schedules(cluster: Cluster, task: Task) -> Iterator[tuple[float, list[tuple[int, str]]]]:
    """Every schedule of a task, with its value."""
    kinds = [None, *(kind for kind in task.throughput if _fits(cluster, task, kind))]
    offers = [(quote.delay, float(quote.price)) for quote in task.quotes] or [(0, 0.0)]
    for delay, price in offers:
        slots = range(task.arrival + delay, task.deadline + 1)
        for choice in itertools.product(kinds, repeat=len(slots)):
            cells = [(slot, kind) for slot, kind in zip(slots, choice, strict=True) if kind]
            if sum(task.throughput[kind] for _, kind in cells) >= task.work * (1 - 1e-9):
                cost = sum(operating_cost(cluster, task, kind, slot) for slot, kind in cells)
                yield float(task.bid) - price - cost, cells


def _fits(cluster: Cluster, task: Task, kind: str) -> bool:
    node_type = cluster.node_types[kind]
    room = node_type.memory_gb - cluster.base_memory_gb
    return task.throughput[kind] <= node_type.compute and task.memory_gb <= room
