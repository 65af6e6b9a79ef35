"""What of each cell is sold: the used compute and memory of every node in every slot.

Shapes: T slots, N nodes, K node types. Nodes of one type have the same capacity, so a node that
is used no more than another in both compute and memory has at least as much room, and under a
price that rises with use it is no dearer. `candidates` therefore lists, for each slot and type,
only the undominated nodes by use; a price that is not a function of use (the paper's) needs all.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auctune.auction.tolerance import FIT
from auctune.domain import Cluster, Task
from auctune.numerics.jit import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Capacity(NamedTuple):
    """What nodes can hold, by type; and which nodes are of which type."""

    compute: Floats  # [K] samples per slot
    memory: Floats  # [K] GB beside the base model
    type_of: Ints  # [N]
    nodes_of: Ints  # [N] node indices grouped by type, rising within each
    first_of: Ints  # [K + 1] where each type's group starts in nodes_of


class Usage(NamedTuple):
    """What is sold of them."""

    compute: Floats  # [T, N] samples
    memory: Floats  # [T, N] GB
    tasks: Ints  # [T, N] number of tasks
    candidates: Ints  # [T, N] node indices grouped by type as nodes_of
    num_candidates: Ints  # [T, K]


class Book:
    """The state of a cluster's cells.

    Args:
        cluster: the supply.
        prune: keep only the nodes undominated by use as candidates.
    """

    def __init__(self, cluster: Cluster, *, prune: bool) -> None:
        self.cluster = cluster
        self.type_names = tuple(cluster.node_types)
        self.node_ids = tuple(node.id for node in cluster.nodes)
        self._index = {node_id: index for index, node_id in enumerate(self.node_ids)}
        self._prune = prune
        self.capacity = _capacity(cluster)
        # [K, T] money for a slot at full load
        self.energy_cost: Floats = np.array(
            [kind.energy_cost for kind in cluster.node_types.values()], dtype=np.float64
        )
        self.usage = _empty_usage(self.capacity, cluster.slots, prune=prune)

    @property
    def num_slots(self) -> int:
        """Slots of the horizon."""
        return self.cluster.slots

    def throughput(self, task: Task) -> Floats:
        """[K] samples per slot of `task` by type; 0 where it cannot run."""
        given = task.throughput
        return np.array([given.get(name, 0.0) for name in self.type_names])

    def operating_cost(self, task: Task, throughput: Floats) -> Floats:
        """[K, T] money that a cell costs the operator if `task` runs in it (e_ikt)."""
        cost: Floats = self.energy_cost * (throughput / self.capacity.compute)[:, None]
        for name, own in (task.operating_cost or {}).items():
            cost[self.type_names.index(name)] = own
        return cost

    def indices(self, cells: Iterable[tuple[int, str]]) -> tuple[Ints, Ints]:
        """Cells (slot, node id) as arrays of slots and node indices."""
        pairs = [(slot, self._index[node]) for slot, node in cells]
        array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return array[:, 0].copy(), array[:, 1].copy()

    def has_room(self, slots: Ints, nodes: Ints, throughput: Floats, memory_gb: float) -> bool:
        """Whether each of these cells can take the task as well."""
        types = self.capacity.type_of[nodes]
        compute = self.usage.compute[slots, nodes] + throughput[types]
        memory = self.usage.memory[slots, nodes] + memory_gb
        fits_compute = compute <= self.capacity.compute[types] * (1 + FIT)
        fits_memory = memory <= self.capacity.memory[types] * (1 + FIT)
        return bool(np.all(fits_compute & fits_memory))

    def shares_used(self) -> tuple[Floats, Floats]:
        """[T, N] shares of compute and of memory that are sold."""
        types = self.capacity.type_of
        return (
            self.usage.compute / self.capacity.compute[types],
            self.usage.memory / self.capacity.memory[types],
        )

    def take(self, slots: Ints, nodes: Ints, throughput: Floats, memory_gb: float) -> None:
        """Sell these cells to a task."""
        self._change(slots, nodes, throughput, memory_gb, 1)

    def give_back(self, slots: Ints, nodes: Ints, throughput: Floats, memory_gb: float) -> None:
        """Undo `take`."""
        self._change(slots, nodes, throughput, memory_gb, -1)

    def _change(
        self, slots: Ints, nodes: Ints, throughput: Floats, memory_gb: float, sign: int
    ) -> None:
        capacity, usage = self.capacity, self.usage
        _book_cells(
            capacity.type_of,
            capacity.nodes_of,
            capacity.first_of,
            usage.compute,
            usage.memory,
            usage.tasks,
            usage.candidates,
            usage.num_candidates,
            slots,
            nodes,
            throughput,
            memory_gb,
            sign,
            self._prune,
        )


def _capacity(cluster: Cluster) -> Capacity:
    types = list(cluster.node_types.values())
    names = list(cluster.node_types)
    type_of = np.array([names.index(node.type) for node in cluster.nodes], dtype=np.int64)
    counts = np.bincount(type_of, minlength=len(types))
    return Capacity(
        compute=np.array([t.compute for t in types]),
        memory=np.array([t.memory_gb - cluster.base_memory_gb for t in types]),
        type_of=type_of,
        nodes_of=np.argsort(type_of, kind="stable").astype(np.int64),
        first_of=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
    )


def _empty_usage(capacity: Capacity, num_slots: int, *, prune: bool) -> Usage:
    num_nodes, num_types = len(capacity.type_of), len(capacity.compute)
    counts = np.diff(capacity.first_of)
    # All nodes of a type are alike while they are empty: the first one stands for them.
    shown = np.minimum(counts, 1) if prune else counts
    return Usage(
        compute=np.zeros((num_slots, num_nodes)),
        memory=np.zeros((num_slots, num_nodes)),
        tasks=np.zeros((num_slots, num_nodes), dtype=np.int64),
        candidates=np.tile(capacity.nodes_of, (num_slots, 1)),
        num_candidates=np.tile(shown, (num_slots, 1)).reshape(num_slots, num_types),
    )


@kernel
def _book_cells(
    type_of: Ints,
    nodes_of: Ints,
    first_of: Ints,
    used_compute: Floats,
    used_memory: Floats,
    num_tasks: Ints,
    candidates: Ints,
    num_candidates: Ints,
    slots: Ints,
    nodes: Ints,
    throughput: Floats,
    memory_gb: float,
    sign: int,
    prune: bool,
) -> None:
    # Called once an admission: plain arrays pass far quicker than tuples of them.
    for i in range(len(slots)):
        t, n = slots[i], nodes[i]
        k = type_of[n]
        num_tasks[t, n] += sign
        if num_tasks[t, n] == 0:
            # Subtracting leaves rounding behind; an empty cell is exactly empty.
            used_compute[t, n] = 0.0
            used_memory[t, n] = 0.0
        else:
            used_compute[t, n] += sign * throughput[k]
            used_memory[t, n] += sign * memory_gb
        if prune:
            group = slice(first_of[k], first_of[k + 1])
            num_candidates[t, k] = list_candidates(
                used_compute[t], used_memory[t], nodes_of[group], candidates[t, group]
            )


@kernel
def list_candidates(used_compute: Floats, used_memory: Floats, nodes: Ints, listed: Ints) -> int:
    """List the nodes of one type and slot that are undominated by use, by rising compute use.

    Args:
        used_compute, used_memory: [N] of the slot.
        nodes: of the type, by rising index.
        listed: as long as nodes; filled from the front.

    Returns:
        How many are listed.
    """
    count = 0
    for n in nodes:
        compute, memory = used_compute[n], used_memory[n]
        place = 0
        while place < count and used_compute[listed[place]] < compute:
            place += 1
        # Those before `place` use less compute, and the last of them least memory; an equal
        # one stands at `place`, and a lower index (seen earlier) stays.
        if place > 0 and used_memory[listed[place - 1]] <= memory:
            continue
        if (
            place < count
            and used_compute[listed[place]] == compute
            and used_memory[listed[place]] <= memory
        ):
            continue
        end = place
        while end < count and used_memory[listed[end]] >= memory:
            end += 1
        if end == place:
            for j in range(count, place, -1):
                listed[j] = listed[j - 1]
        else:
            for j in range(end, count):
                listed[place + 1 + j - end] = listed[j]
        count += 1 - (end - place)
        listed[place] = n
    return count
