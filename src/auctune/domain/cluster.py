"""The supply: nodes by type over slots, and what energy costs them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from auctune.domain.checks import check_finite, check_positive
from auctune.domain.errors import InputError
from auctune.domain.task import Task


@dataclass(frozen=True, slots=True)
class NodeType:
    """What all nodes of a type have in common.

    Attributes:
        compute: samples per slot that a node can train on (C_kp).
        memory_gb: memory of a node, the base model's replica included (C_km).
        energy_cost: money for a slot at full load, one entry a slot of the horizon.
    """

    compute: float
    memory_gb: float
    energy_cost: tuple[float, ...]

    def __post_init__(self) -> None:
        check_positive(self.compute, "compute", "samples per slot > 0")
        check_positive(self.memory_gb, "memory_gb", "GB > 0")
        for slot, cost in enumerate(self.energy_cost):
            check_finite(cost, f"energy_cost[{slot}]", "money per slot >= 0")


@dataclass(frozen=True, slots=True)
class Node:
    """One machine or device that trains: its name and its type's."""

    id: str
    type: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """All nodes of a zone, the base model's memory and the horizon.

    Attributes:
        slots: number of slots of the horizon (T).
        slot_seconds: length of a slot in seconds.
        base_memory_gb: memory of the base model's replica on each node (r_b).
        node_types: by name.
        nodes: in the order that breaks ties between them.
    """

    slots: int
    slot_seconds: float
    base_memory_gb: float
    node_types: Mapping[str, NodeType]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise InputError("slots", f"{self.slots}", "a number of slots >= 1")
        check_positive(self.slot_seconds, "slot_seconds", "seconds > 0")
        check_finite(self.base_memory_gb, "base_memory_gb", "GB >= 0")
        for name, node_type in self.node_types.items():
            place = f"node_types.{name}"
            if node_type.memory_gb <= self.base_memory_gb:
                raise InputError(
                    f"{place}.memory_gb",
                    f"{node_type.memory_gb} cannot hold the base model",
                    f"more than base_memory_gb = {self.base_memory_gb}",
                )
            if len(node_type.energy_cost) != self.slots:
                raise InputError(
                    f"{place}.energy_cost",
                    f"has {len(node_type.energy_cost)} entries",
                    f"one per slot: {self.slots}",
                )
        self._check_nodes()

    @property
    def used_types(self) -> frozenset[str]:
        """Names of the node types that nodes are of."""
        return frozenset(node.type for node in self.nodes)

    def _check_nodes(self) -> None:
        if not self.nodes:
            raise InputError("nodes", "is empty", "at least one node")
        seen: set[str] = set()
        for index, node in enumerate(self.nodes):
            if node.id in seen:
                raise InputError(f"nodes[{index}].id", f"{node.id!r} is a duplicate", "unique ids")
            if node.type not in self.node_types:
                known = ", ".join(map(repr, self.node_types)) or "none"
                raise InputError(
                    f"nodes[{index}].type", f"{node.type!r} is unknown", f"one of {known}"
                )
            seen.add(node.id)


def check_task(task: Task, cluster: Cluster, first: int = 0) -> None:
    """Refuse a task that does not speak of this cluster.

    Args:
        task: the task.
        cluster: the supply.
        first: the first slot of the window, in a market whose window of `cluster.slots` rolls.

    Raises:
        InputError: for an unknown node type, a deadline outside the horizon, or operating costs
            that are not one per slot.
    """
    for field, by_type in (
        ("throughput", task.throughput),
        ("operating_cost", task.operating_cost),
    ):
        for name in by_type or {}:
            if name not in cluster.node_types:
                known = ", ".join(cluster.node_types)
                raise InputError(f"{field}.{name}", "is not a node type", f"one of {known}")
    if task.deadline >= first + cluster.slots:
        raise InputError(
            "deadline",
            f"{task.deadline} is beyond the last slot",
            f"a slot of the horizon, {first} to {first + cluster.slots - 1}",
        )
    for name, costs in (task.operating_cost or {}).items():
        if len(costs) != cluster.slots:
            raise InputError(
                f"operating_cost.{name}",
                f"has {len(costs)} entries",
                f"one per slot: {cluster.slots}",
            )


class EnergyForecast(Protocol):
    """Knows the energy cost of any slot to come.

    A rolling market asks once for each slot and node type, when the slot enters its window, and
    sells the slot by that answer from then on.
    """

    def __call__(self, node_type: str, slot: int) -> float:
        """Money for `slot` on a node of this type at full load, >= 0."""
        ...


class RepeatedEnergy:
    """The costs of a cluster's own slots, again and again: a day's tariff, if they are a day.

    Args:
        cluster: its `slots` are the period.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._period = cluster.slots
        self._types = cluster.node_types

    def __call__(self, node_type: str, slot: int) -> float:
        return self._types[node_type].energy_cost[slot % self._period]
