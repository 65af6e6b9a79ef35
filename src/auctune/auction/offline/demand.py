"""What a task may do in a program: its quotes worth considering, and its cells with room.

Shapes: T rows of the ledger, N nodes, K node types, G groups of nodes. A group is one node, where
a program is exact, or all nodes of a type, whose room is then added up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.auction.ledger import CapacityLedger
from auctune.domain import Quote, Task
from auctune.numerics.arrays import FIT, Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """Remaining capacity of each node, and the groups that nodes are in.

    Attributes:
        compute: [T, N] samples that fit.
        memory: [T, N] GB that fit.
        group_of: [N] the group of each node.
        type_of: [G] the node type of each group.
    """

    compute: Floats
    memory: Floats
    group_of: Ints
    type_of: Ints

    @property
    def num_groups(self) -> int:
        return len(self.type_of)

    @property
    def is_by_node(self) -> bool:
        """Return whether each node is a group of its own, in the order of nodes."""
        return np.array_equal(self.group_of, np.arange(self.num_groups))

    def fits(self, throughput: Floats, memory_gb: float) -> Bools:
        """[T, G] whether some node of the group has room for a task ([K] samples a slot, GB)."""
        samples = throughput[self.type_of][self.group_of]
        fits = (samples <= self.compute) & (memory_gb <= self.memory) & (samples > 0)
        if self.is_by_node:
            return fits
        grouped = np.zeros((len(fits), self.num_groups), dtype=np.bool_)
        for group in range(self.num_groups):
            grouped[:, group] = fits[:, self.group_of == group].any(axis=1)
        return grouped

    def totals(self) -> tuple[Floats, Floats]:
        """[T, G] compute and memory left in each group."""
        # A node that is full by a slack has a little less than nothing left; a lost one far less.
        compute, memory = np.maximum(self.compute, 0), np.maximum(self.memory, 0)
        if self.is_by_node:
            return compute, memory
        member = np.eye(self.num_groups)[self.group_of]
        return compute @ member, memory @ member


def room_by_node(ledger: CapacityLedger) -> Room:
    """Return the room left, each node by itself."""
    types = ledger.capacity.type_of
    return Room(*_left(ledger), np.arange(len(types)), types)


def room_by_type(ledger: CapacityLedger) -> Room:
    """Return the room left, added up over the nodes of a type."""
    types = ledger.capacity.type_of
    return Room(*_left(ledger), types, np.arange(len(ledger.capacity.compute)))


def _left(ledger: CapacityLedger) -> tuple[Floats, Floats]:
    capacity, types = ledger.capacity, ledger.capacity.type_of
    compute = capacity.compute[types] * (1 + FIT) - ledger.usage.compute
    memory = capacity.memory[types] * (1 + FIT) - ledger.usage.memory
    # A lost node counts as infinitely used, which a linear program cannot state.
    lost = np.isneginf(compute)
    compute[lost] = memory[lost] = 0.0
    return compute, memory


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """A task that could be run in the room there is; q quotes, c cells.

    Attributes:
        task: the task.
        quotes: those worth considering; (none,) where the data need no work.
        starts: [q] first row after the vendor's work.
        values: [q] bid less the vendor's price, money.
        rows, groups: [c] the cells in which it may run.
        samples: [c] compute that it takes.
        costs: [c] operating cost, money.
    """

    task: Task
    quotes: tuple[Quote | None, ...]
    starts: Ints
    values: Floats
    rows: Ints
    groups: Ints
    samples: Floats
    costs: Floats


def demand(
    ledger: CapacityLedger, room: Room, task: Task, now: int, quotes: Sequence[Quote]
) -> Demand | None:
    """Return what `task` may do from slot `now` on.

    Args:
        ledger: the cluster.
        room: what is left of it.
        task: the task.
        now: no cell before it is taken.
        quotes: the vendors to choose from; empty if the data need no work.

    Returns:
        None if no vendor leaves time enough in the room there is, or costs less than the bid, or
        if each cell costs as much as that leaves.
    """
    throughput = ledger.throughput(task)
    fits = room.fits(throughput, task.memory_gb)
    samples = np.where(fits, throughput[room.type_of], 0.0)
    begin, last = ledger.row(max(now, task.arrival)), ledger.row(task.deadline)
    done = np.cumsum(samples.max(axis=1)[begin : last + 1][::-1])[::-1]
    # `done` falls: the last row from which the work can still be done is the latest start.
    latest = begin + int(np.sum(done >= task.work * (1 - FIT))) - 1
    chosen = _worthwhile(task, begin, latest, quotes)
    if not chosen:
        return None
    starts = np.array([begin + _delay(quote) for quote in chosen], dtype=np.int64)
    first = int(starts.min())
    rows, groups = np.nonzero(fits[first : last + 1])
    rows += first
    values = np.array([float(task.bid) - _price(quote) for quote in chosen])
    costs = ledger.operating_cost(task, throughput)[room.type_of[groups], rows]
    worthwhile = costs < values.max()
    rows, groups, costs = rows[worthwhile], groups[worthwhile], costs[worthwhile]
    if not len(rows):
        return None
    return Demand(
        task,
        chosen,
        starts,
        values,
        rows,
        groups,
        samples[rows, groups],
        costs,
    )


def _worthwhile(
    task: Task, begin: int, latest: int, quotes: Sequence[Quote]
) -> tuple[Quote | None, ...]:
    """Quotes in time and below the bid, without those that another one beats in both."""
    if not quotes:
        return (None,) if begin <= latest and task.bid > 0 else ()
    by_delay = sorted(quotes, key=lambda quote: (quote.delay, quote.price))
    kept: list[Quote] = []
    for quote in by_delay:
        in_time = begin + quote.delay <= latest and quote.price < task.bid
        if in_time and (not kept or quote.price < kept[-1].price):
            kept.append(quote)
    return tuple(kept)


def _delay(quote: Quote | None) -> int:
    return 0 if quote is None else quote.delay


def _price(quote: Quote | None) -> float:
    return 0.0 if quote is None else float(quote.price)
