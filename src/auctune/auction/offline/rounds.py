"""From what a program chose to cells on nodes, in rounds.

A program over node types adds up the room of their nodes. What it takes is put on nodes by best
fit, and tasks for which no node is left are weighed once more on what room there is, and so on:
cells that no node has room for are no longer offered to them.
"""

from collections.abc import Callable, Sequence

import numpy as np

from auctune.auction.book import Book, Ints
from auctune.auction.offline.demand import Room
from auctune.auction.offline.program import Chosen
from auctune.auction.plan import sell_for_bid
from auctune.auction.tolerance import FIT
from auctune.domain import Decision, Task

Weigh = Callable[[Sequence[Task]], tuple[Room, list[Chosen]]]
"""Chooses among tasks for the room that is left now."""


def sell_in_rounds(book: Book, tasks: Sequence[Task], weigh: Weigh) -> dict[str, Decision]:
    """Book cells for the tasks that `weigh` chooses; the decisions of those, by task id."""
    sold: dict[str, Decision] = {}
    waiting, again = list(tasks), True
    while again:
        room, chosen = weigh(waiting)
        # Where nodes run short, those go first whose cells are worth most.
        for one in sorted(chosen, key=lambda one: -float(one.task.bid) / len(one.rows)):
            nodes = _place(book, room, one)
            if nodes is not None:
                sold[one.task.id] = sell_for_bid(book, one.task, one.quote, one.rows, nodes)
        again = 0 < sum(one.task.id in sold for one in chosen) < len(chosen)
        waiting = [task for task in waiting if task.id not in sold]
    return sold


def _place(book: Book, room: Room, one: Chosen) -> Ints | None:
    """A node for each cell; none if one has none, or if the work is done but for a tolerance."""
    throughput = book.throughput(one.task)
    if float(throughput[room.type_of[one.groups]].sum()) < one.task.work * (1 - FIT):
        return None
    if room.is_by_node:
        has_room = book.has_room(one.rows, one.groups, throughput, one.task.memory_gb)
        return one.groups if has_room else None
    nodes = np.empty(len(one.rows), dtype=np.int64)
    for place, (row, kind) in enumerate(zip(one.rows.tolist(), one.groups.tolist(), strict=True)):
        node = _best_fit(book, row, kind, float(throughput[kind]), one.task.memory_gb)
        if node is None:
            return None
        nodes[place] = node
    return nodes


def _best_fit(book: Book, row: int, kind: int, samples: float, memory_gb: float) -> int | None:
    """Of the nodes of a type with room in a row, the one with least room left; the first such."""
    capacity = book.capacity
    nodes = capacity.nodes_of[capacity.first_of[kind] : capacity.first_of[kind + 1]]
    compute = (book.usage.compute[row, nodes] + samples) / capacity.compute[kind]
    memory = (book.usage.memory[row, nodes] + memory_gb) / capacity.memory[kind]
    fits = (compute <= 1 + FIT) & (memory <= 1 + FIT)
    fullness = np.where(fits, compute + memory, -np.inf)
    best = int(fullness.argmax())
    return int(nodes[best]) if fits[best] else None
