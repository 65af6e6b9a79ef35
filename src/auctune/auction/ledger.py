"""What of each cell is sold: the used compute and memory of every node in every slot.

Shapes: T rows, N nodes, K node types. A row is a slot counted from `horizon.origin`, which is 0
in a market with an end; schedules, tasks and events speak of slots, arrays of rows.

Nodes of one type have the same capacity, so a node that is used no more than another in both
compute and memory has at least as much room, and under a price that rises with use it is no
dearer. `candidates` therefore lists, for each slot and type, only the undominated nodes by use; a
price that is not a function of use (the paper's) needs all. The cells of a lost node are used
without end.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from auctune.auction.candidates import change_use, list_candidates, list_open
from auctune.auction.horizon import Horizon, Shift, read_rows, save_rows
from auctune.domain import (
    Cell,
    Cluster,
    EnergyForecast,
    InputError,
    Saved,
    SlotAdvanced,
    Task,
    check_task,
)
from auctune.numerics.arrays import FIT, Floats, Ints

# A named tuple of a pair, without a call of Python's for each cell of each schedule.
_as_cell = partial(tuple.__new__, Cell)


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


class CapacityLedger:
    """The state of a cluster's cells.

    Args:
        cluster: the supply; of a market without an end, the supply of its first window.
        prune: keep only the nodes undominated by use as candidates.
        energy: what slots to come will cost; with it the market has no end, and the cluster's
            slots are the length of its window.
    """

    def __init__(
        self, cluster: Cluster, *, prune: bool, energy: EnergyForecast | None = None
    ) -> None:
        self.cluster = cluster
        self.type_names = tuple(cluster.node_types)
        self.node_ids = tuple(node.id for node in cluster.nodes)
        self.horizon = Horizon(cluster.slots, rolls=energy is not None)
        self.capacity = _capacity(cluster)
        self.node_index = {node_id: index for index, node_id in enumerate(self.node_ids)}
        self._lost: set[int] = set()
        self._prune = prune
        self.energy = energy
        # [K, T] money for a slot at full load
        self.energy_cost: Floats = np.zeros((len(self.type_names), self.horizon.num_rows))
        self.energy_cost[:, : cluster.slots] = [
            kind.energy_cost for kind in cluster.node_types.values()
        ]
        self.usage = empty_usage(self.capacity, self.horizon.num_rows, prune=prune)

    def check(self, task: Task, now: int = 0) -> None:
        """Refuse a task that does not speak of this cluster and its window.

        Args:
            task: the task.
            now: a slot to come, up to which the window will have moved.

        Raises:
            InputError: naming the field.
        """
        horizon = self.horizon
        check_task(task, self.cluster, max(horizon.first, now) if horizon.rolls else 0)

    def throughput(self, task: Task) -> Floats:
        """[K] samples per slot of `task` by type; 0 where it cannot run."""
        given = task.throughput
        return np.array([given.get(name, 0.0) for name in self.type_names])

    def operating_cost(self, task: Task, throughput: Floats) -> Floats:
        """[K, T] money that a cell costs the operator if `task` runs in it (e_ikt)."""
        cost: Floats = self.energy_cost * (throughput / self.capacity.compute)[:, None]
        if task.operating_cost is not None:
            self._put_own_cost(task, cost)
        return cost

    def row(self, slot: int) -> int:
        """Where a slot lies in the arrays."""
        return slot - self.horizon.origin

    def cells(self, rows: Ints, nodes: Ints) -> tuple[Cell, ...]:
        """Rows and node indices as cells (slot, node id)."""
        slots = (rows + self.horizon.origin).tolist()
        ids = map(self.node_ids.__getitem__, nodes.tolist())
        return tuple(map(_as_cell, zip(slots, ids, strict=True)))

    def indices(self, cells: Iterable[tuple[int, str]]) -> tuple[Ints, Ints]:
        """Cells (slot, node id) as arrays of rows and node indices; those of slots that the
        window has left behind are left out."""
        origin, first = self.horizon.origin, self.horizon.first
        pairs = [(slot - origin, self.node_index[node]) for slot, node in cells if slot >= first]
        array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return array[:, 0].copy(), array[:, 1].copy()

    def has_room(self, rows: Ints, nodes: Ints, throughput: Floats, memory_gb: float) -> bool:
        """Return whether each of these cells can take the task as well."""
        types = self.capacity.type_of[nodes]
        compute = self.usage.compute[rows, nodes] + throughput[types]
        memory = self.usage.memory[rows, nodes] + memory_gb
        fits_compute = compute <= self.capacity.compute[types] * (1 + FIT)
        fits_memory = memory <= self.capacity.memory[types] * (1 + FIT)
        return bool(np.all(fits_compute & fits_memory))

    def shares_used(self) -> tuple[Floats, Floats]:
        """[W, N] shares of compute and of memory that are sold; all of a lost node's."""
        types, rows = self.capacity.type_of, self.horizon.rows
        compute = self.usage.compute[rows] / self.capacity.compute[types]
        memory = self.usage.memory[rows] / self.capacity.memory[types]
        compute[np.isinf(compute)] = 1.0
        memory[np.isinf(memory)] = 1.0
        return compute, memory

    def allocate(self, rows: Ints, nodes: Ints, throughput: Floats, memory_gb: float) -> None:
        """Sell these cells to a task."""
        self._change(rows, nodes, throughput, memory_gb, 1)

    def release(self, rows: Ints, nodes: Ints, throughput: Floats, memory_gb: float) -> None:
        """Undo `allocate`."""
        self._change(rows, nodes, throughput, memory_gb, -1)

    def entering(self, now: int) -> SlotAdvanced:
        slots = self.horizon.entering(now)
        energy = self.energy
        if energy is None or not slots:
            return SlotAdvanced(now, {})
        return SlotAdvanced(
            now, {name: tuple(energy(name, slot) for slot in slots) for name in self.type_names}
        )

    def advance(self, event: SlotAdvanced) -> Shift | None:
        """Move the window; None if it stays where it is.

        Raises:
            InputError: if the event does not hold the costs of the slots that enter.
        """
        num_entering = len(self.horizon.entering(event.now))
        if not num_entering:
            return None
        costs = [event.energy_cost.get(name, ()) for name in self.type_names]
        if any(len(cost) != num_entering for cost in costs):
            raise InputError(
                "energy_cost",
                f"holds {[len(cost) for cost in costs]} entries by node type",
                f"{num_entering} of each: one a slot that enters",
            )
        shift = self.horizon.advance(event.now)
        for by_slot in (self.usage.compute, self.usage.memory, self.usage.tasks):
            shift.move(by_slot, 0)
        shift.move(self.usage.candidates, self.capacity.nodes_of)
        shift.move(self.usage.num_candidates, _num_shown(self.capacity, prune=self._prune))
        shift.move(self.energy_cost.T, np.array(costs).T)
        # In order: what is left in unused entries of the lists depends on it.
        for node in sorted(self._lost):
            self._use_up(node, shift.first, shift.last, np.inf)
        return shift

    def fail_node(self, node_id: str, now: int) -> tuple[Ints, Ints]:
        """Take a node off the market from slot `now` on; its cells there, as `indices`.

        Raises:
            InputError: if there is no such node, or if it is lost already.
        """
        node = self._known(node_id)
        if node in self._lost:
            raise InputError("node", f"{node_id!r} is lost already", "a node that is there")
        self._lost.add(node)
        return self._set_rest(node, now, np.inf)

    def restore_node(self, node_id: str, now: int) -> tuple[Ints, Ints]:
        """Undo `fail_node` from slot `now` on: the node is empty; its cells there.

        Raises:
            InputError: if there is no such node, or if it is not lost.
        """
        node = self._known(node_id)
        if node not in self._lost:
            raise InputError("node", f"{node_id!r} is not lost", "a node that is")
        self._lost.remove(node)
        return self._set_rest(node, now, 0.0)

    def save(self) -> Saved:
        return {
            "nodes": list(self.node_ids),
            "rolls": self.horizon.rolls,
            "first": self.horizon.first,
            "origin": self.horizon.origin,
            "lost": sorted(self._lost),
            **save_rows(self.horizon, energy_cost=self.energy_cost.T, **self.usage._asdict()),
        }

    def load(self, saved: Saved) -> None:
        """Restore a snapshot of the ledger of the same cluster.

        Raises:
            InputError: if it is of another one, or if more is sold of a node than it holds;
                nothing has changed then.
        """
        if tuple(saved["nodes"]) != self.node_ids:
            raise InputError("snapshot.nodes", "are others", f"{', '.join(self.node_ids)}")
        if saved["rolls"] != self.horizon.rolls:
            expected = "both with an end, or both without one"
            raise InputError("snapshot.rolls", "is of another market", expected)
        first, origin, lost = saved["first"], saved["origin"], saved["lost"]
        last_origin = self.horizon.num_rows - self.horizon.num_slots
        if not (isinstance(first, int) and isinstance(origin, int)) or not (
            0 <= origin <= first <= origin + last_origin
        ):
            found, expected = f"{first!r}, and origin {origin!r}", "slots of such a window"
            raise InputError("snapshot.first", found, expected)
        if not set(lost) <= set(range(len(self.node_ids))):
            raise InputError("snapshot.lost", f"{lost}", "indices of nodes")
        by_row = {"energy_cost": self.energy_cost.T, **self.usage._asdict()}
        rows = read_rows(self.horizon, saved, **by_row)
        self._check_sold("compute", rows["compute"], self.capacity.compute, first)
        self._check_sold("memory", rows["memory"], self.capacity.memory, first)
        self.horizon.first, self.horizon.origin = first, origin
        self._lost = set(lost)
        for name, array in rows.items():
            by_row[name][self.horizon.rows] = array

    def _check_sold(self, name: str, sold: Floats, by_type: Floats, first: int) -> None:
        """Refuse rows [W, N] of a use that is more than a node holds ([K]).

        `first` is the slot of the first row.
        """
        held = by_type[self.capacity.type_of]
        # Lost nodes are used without end.
        too_much = np.argwhere(np.isfinite(sold) & (sold > held * (1 + 2 * FIT)))
        if len(too_much):
            row, node = too_much[0].tolist()
            raise InputError(
                f"snapshot.{name}",
                f"{sold[row, node]:g} sold of node {self.node_ids[node]!r} in slot {first + row}",
                f"{held[node]:g} at most, which is what it holds",
            )

    def _known(self, node_id: str) -> int:
        if node_id not in self.node_index:
            raise InputError("node", f"{node_id!r} is no node", "the id of a node")
        return self.node_index[node_id]

    def _set_rest(self, node: int, now: int, use: float) -> tuple[Ints, Ints]:
        rows = self.horizon.rows
        first = max(self.row(now), rows.start)
        self._use_up(node, first, rows.stop, use)
        remaining = np.arange(first, rows.stop, dtype=np.int64)
        return remaining, np.full(len(remaining), node, dtype=np.int64)

    def _use_up(self, node: int, first: int, last: int, use: float) -> None:
        """Set the use of a node in the rows [first, last), and list candidates anew."""
        usage, kind = self.usage, int(self.capacity.type_of[node])
        usage.compute[first:last, node] = use
        usage.memory[first:last, node] = use
        group = slice(self.capacity.first_of[kind], self.capacity.first_of[kind + 1])
        nodes = self.capacity.nodes_of[group]
        for row in range(first, last):
            compute, listed = usage.compute[row], usage.candidates[row, group]
            usage.num_candidates[row, kind] = (
                list_candidates(compute, usage.memory[row], nodes, listed)
                if self._prune
                else list_open(compute, nodes, listed)
            )

    def _put_own_cost(self, task: Task, cost: Floats) -> None:
        # In a market without an end a task's own costs are those of the slots from its arrival.
        first = self.row(task.arrival) if self.horizon.rolls else 0
        begin, end = max(first, 0), min(first + self.cluster.slots, cost.shape[1])
        for name, own in (task.operating_cost or {}).items():
            cost[self.type_names.index(name), begin:end] = own[begin - first : end - first]

    def _change(
        self, rows: Ints, nodes: Ints, throughput: Floats, memory_gb: float, sign: int
    ) -> None:
        capacity, usage = self.capacity, self.usage
        change_use(
            capacity.type_of,
            capacity.nodes_of,
            capacity.first_of,
            usage.compute,
            usage.memory,
            usage.tasks,
            usage.candidates,
            usage.num_candidates,
            rows,
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


def _num_shown(capacity: Capacity, *, prune: bool) -> Ints:
    """[K] candidates in a slot of which nothing is sold."""
    counts: Ints = np.diff(capacity.first_of)
    # All nodes of a type are alike while they are empty: the first one stands for them.
    return np.minimum(counts, 1) if prune else counts


def empty_usage(capacity: Capacity, num_rows: int, *, prune: bool) -> Usage:
    """Rows of which nothing is sold."""
    num_nodes = len(capacity.type_of)
    return Usage(
        compute=np.zeros((num_rows, num_nodes)),
        memory=np.zeros((num_rows, num_nodes)),
        tasks=np.zeros((num_rows, num_nodes), dtype=np.int64),
        candidates=np.tile(capacity.nodes_of, (num_rows, 1)),
        num_candidates=np.tile(_num_shown(capacity, prune=prune), (num_rows, 1)),
    )
