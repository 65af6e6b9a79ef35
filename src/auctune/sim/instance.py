"""An instance: a cluster and all its bids, known in advance, for the simulator."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auctune.domain import Cluster, InputError, Task, check_task


@dataclass(frozen=True, slots=True)
class Instance:
    """One market to simulate.

    Attributes:
        cluster: the supply.
        tasks: by arrival; bids of one slot in the order in which they are decided.
        real_energy_cost: money for a slot at full load by node type, one entry a slot, where that
            differs from what mechanisms see: it may be below zero. For the accounts alone.

    Raises:
        InputError: naming the field, if two tasks share an id, or a task does not speak of this
            cluster: node types that it does not have, a deadline beyond its horizon, operating
            costs that are not one a slot, or two quotes of one vendor; or if real energy costs are
            not one a slot for every node type.
    """

    cluster: Cluster
    tasks: tuple[Task, ...]
    real_energy_cost: Mapping[str, Sequence[float]] | None = None

    def __post_init__(self) -> None:
        if self.real_energy_cost is not None:
            _check_real_costs(self.real_energy_cost, self.cluster)
        seen: set[str] = set()
        for index, task in enumerate(self.tasks):
            if task.id in seen:
                raise InputError(f"tasks[{index}].id", f"{task.id!r} is there twice", "unique ids")
            seen.add(task.id)
            try:
                check_task(task, self.cluster)
                check_vendors(task)
            except InputError as error:
                place = f"tasks[{index}].{error.place}"
                raise InputError(place, error.found, error.expected) from None

    def in_order(self) -> list[Task]:
        """Return the tasks by arrival, and in their order within a slot."""
        return sorted(self.tasks, key=lambda task: task.arrival)


def _check_real_costs(costs: Mapping[str, Sequence[float]], cluster: Cluster) -> None:
    for name in cluster.node_types:
        place = f"node_types.{name}.real_energy_cost"
        if name not in costs:
            raise InputError(place, "is missing", "one for each node type, or for none")
        if len(costs[name]) != cluster.slots:
            found = f"has {len(costs[name])} entries"
            raise InputError(place, found, f"one a slot: {cluster.slots}")
        for slot, cost in enumerate(costs[name]):
            if not math.isfinite(cost):
                raise InputError(f"{place}[{slot}]", f"{cost!r}", "money per slot")


def check_vendors(task: Task) -> None:
    """Refuse two quotes of one vendor.

    Raises:
        InputError: naming the quote.
    """
    vendors: set[str] = set()
    for index, quote in enumerate(task.quotes):
        # A decision names its vendor; two quotes of one name could not be told apart.
        if quote.vendor in vendors:
            raise InputError(
                f"quotes[{index}].vendor", f"{quote.vendor!r} is there twice", "one quote a vendor"
            )
        vendors.add(quote.vendor)


DAY_SECONDS = 86_400


def num_days(cluster: Cluster) -> int:
    """Days that the horizon touches; one at least."""
    return day_of(cluster, cluster.slots - 1) + 1


def day_of(cluster: Cluster, slot: int) -> int:
    """Return the day in which a slot begins, from 0."""
    return int(slot * cluster.slot_seconds // DAY_SECONDS)


def tasks_by_day(cluster: Cluster, tasks: Sequence[Task]) -> list[list[Task]]:
    """Return the tasks that arrive on each day, in their order."""
    days: list[list[Task]] = [[] for _ in range(num_days(cluster))]
    for task in tasks:
        days[day_of(cluster, task.arrival)].append(task)
    return days
