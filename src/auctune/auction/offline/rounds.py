"""From what a program chose to cells on nodes, in rounds.

A program over node types adds up the room of their nodes. What it takes is put on nodes by best
fit, and tasks for which no node is left are weighed once more on what room there is, and so on:
cells that no node has room for are no longer offered to them.
"""

from collections.abc import Callable, Sequence

import numpy as np

from auctune.auction.ledger import CapacityLedger
from auctune.auction.offline.demand import Room
from auctune.auction.offline.program import Chosen
from auctune.auction.plan import sell_for_bid
from auctune.domain import Decision, Task
from auctune.numerics.arrays import FIT, Ints

Weigh = Callable[[Sequence[Task]], tuple[Room, list[Chosen]]]
"""Chooses among tasks for the room that is left now."""


def sell_in_rounds(
    ledger: CapacityLedger, tasks: Sequence[Task], weigh: Weigh
) -> dict[str, Decision]:
    """Allocate cells to the tasks that `weigh` chooses; return their decisions by task id."""
    sold: dict[str, Decision] = {}
    waiting, again = list(tasks), True
    while again:
        room, chosen = weigh(waiting)
        # Where nodes run short, those go first whose cells are worth most.
        for one in sorted(chosen, key=lambda one: -float(one.task.bid) / len(one.rows)):
            nodes = _place(ledger, room, one)
            if nodes is not None:
                sold[one.task.id] = sell_for_bid(ledger, one.task, one.quote, one.rows, nodes)
        again = 0 < sum(one.task.id in sold for one in chosen) < len(chosen)
        waiting = [task for task in waiting if task.id not in sold]
    return sold


def _place(ledger: CapacityLedger, room: Room, one: Chosen) -> Ints | None:
    """A node for each cell; None if one has none, or if the work is done but for a tolerance."""
    throughput = ledger.throughput(one.task)
    if float(throughput[room.type_of[one.groups]].sum()) < one.task.work * (1 - FIT):
        return None
    if room.is_by_node:
        has_room = ledger.has_room(one.rows, one.groups, throughput, one.task.memory_gb)
        return one.groups if has_room else None
    nodes = np.empty(len(one.rows), dtype=np.int64)
    for place, (row, kind) in enumerate(zip(one.rows.tolist(), one.groups.tolist(), strict=True)):
        node = _best_fit(ledger, row, kind, float(throughput[kind]), one.task.memory_gb)
        if node is None:
            return None
        nodes[place] = node
    return nodes


def _best_fit(
    ledger: CapacityLedger, row: int, kind: int, samples: float, memory_gb: float
) -> int | None:
    """Return the fullest node of a type that has room in a row (the first of equals), or None."""
    capacity = ledger.capacity
    nodes = capacity.nodes_of[capacity.first_of[kind] : capacity.first_of[kind + 1]]
    compute = (ledger.usage.compute[row, nodes] + samples) / capacity.compute[kind]
    memory = (ledger.usage.memory[row, nodes] + memory_gb) / capacity.memory[kind]
    fits = (compute <= 1 + FIT) & (memory <= 1 + FIT)
    fullness = np.where(fits, compute + memory, -np.inf)
    best = int(fullness.argmax())
    return int(nodes[best]) if fits[best] else None
