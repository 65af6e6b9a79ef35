"""What a schedule costs, from its definition: the accounts do not ask the mechanism."""

import math

from auctune.domain import Cluster, Money, Schedule, Task
from auctune.domain.money import ZERO


class Accounts:
    """The costs of schedules on one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._types = cluster.node_types
        self._type_of = {node.id: node.type for node in cluster.nodes}

    def operating_cost(self, task: Task, schedule: Schedule) -> float:
        """What running the cells costs the operator, money: the sum of e_ikt over them."""
        return math.fsum(self._cell_cost(task, slot, node) for slot, node in schedule.cells)

    def _cell_cost(self, task: Task, slot: int, node: str) -> float:
        name = self._type_of[node]
        if task.operating_cost is not None and name in task.operating_cost:
            return task.operating_cost[name][slot]
        kind = self._types[name]
        return task.throughput[name] / kind.compute * kind.energy_cost[slot]


def vendor_price(task: Task, schedule: Schedule) -> Money:
    """What the schedule's vendor takes; 0 where no work is needed."""
    if schedule.vendor is None:
        return ZERO
    return next(quote.price for quote in task.quotes if quote.vendor == schedule.vendor)
