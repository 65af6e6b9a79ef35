"""What a schedule costs, from its definition: the accounts do not ask the mechanism."""

import math
from collections.abc import Iterable, Mapping, Sequence

from auctune.domain import Cell, Cluster, Money, Schedule, Task
from auctune.domain.money import ZERO


class Accounts:
    """The costs of schedules on one cluster.

    Args:
        cluster: the supply.
        energy_cost: money for a slot at full load by node type, one entry a slot, in place of what
            the cluster says; it may be below zero.
    """

    def __init__(
        self, cluster: Cluster, energy_cost: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        self._types = cluster.node_types
        self._energy_cost = energy_cost or {
            name: kind.energy_cost for name, kind in cluster.node_types.items()
        }
        self._type_of = {node.id: node.type for node in cluster.nodes}

    def operating_cost(self, task: Task, schedule: Schedule) -> float:
        """What running the cells costs the operator, money: the sum of e_ikt over them."""
        return self.cells_cost(task, schedule.cells)

    def cells_cost(self, task: Task, cells: Iterable[Cell]) -> float:
        """The sum of e_ikt over any cells, money."""
        return math.fsum([self._cell_cost(task, slot, node) for slot, node in cells])

    def _cell_cost(self, task: Task, slot: int, node: str) -> float:
        name = self._type_of[node]
        if task.operating_cost is not None and name in task.operating_cost:
            return task.operating_cost[name][slot]
        return task.throughput[name] / self._types[name].compute * self._energy_cost[name][slot]


def vendor_price(task: Task, schedule: Schedule) -> Money:
    """What the schedule's vendor takes; 0 where no work is needed."""
    if schedule.vendor is None:
        return ZERO
    return next(quote.price for quote in task.quotes if quote.vendor == schedule.vendor)
