"""The cells with which a task finishes as early as it can.

In each slot the most productive cell with room is taken, until the work is done: no schedule
ends earlier. Then cells that the work does not need are dropped, the least productive first and
the earlier of equals, which leaves the finish as it is.
"""

import numpy as np

from auctune.auction.ledger import Capacity, CapacityLedger, Usage
from auctune.domain import Task
from auctune.numerics.arrays import FIT, Floats, Ints
from auctune.numerics.jit import kernel


def find_earliest(
    ledger: CapacityLedger, usage: Usage, task: Task, first: int, *, alone: bool
) -> tuple[Ints, Ints] | None:
    """Return the cells with which a task finishes first, as rows and node indices.

    Args:
        ledger: the market.
        usage: what is sold of it, or of one like it.
        task: the task; its quotes do not count.
        first: the row from which it may run.
        alone: never two tasks on one node in one slot.
    """
    last = ledger.row(task.deadline)
    nodes = np.full(max(0, last + 1 - first), -1, dtype=np.int64)
    done = earliest_cells(
        ledger.capacity,
        usage,
        first,
        last,
        task.work,
        ledger.throughput(task),
        task.memory_gb,
        alone,
        nodes,
    )
    if not done:
        return None
    used = np.flatnonzero(nodes >= 0)
    return first + used, nodes[used]


@kernel
def earliest_cells(
    capacity: Capacity,
    usage: Usage,
    first: int,
    last: int,
    work: float,
    throughput: Floats,
    memory_gb: float,
    alone: bool,
    nodes: Ints,
) -> bool:
    """Choose a node for each slot first..last.

    Args:
        nodes: [last + 1 - first] filled with node indices; -1 where the task does not run.

    Returns:
        Whether the work gets done.
    """
    needed = work * (1.0 - FIT)
    done = 0.0
    for t in range(first, last + 1):
        most = 0.0
        for n in range(len(capacity.type_of)):
            k = capacity.type_of[n]
            s = throughput[k]
            if s <= most or (alone and usage.tasks[t, n] > 0):
                continue
            compute_fits = usage.compute[t, n] + s <= capacity.compute[k] * (1.0 + FIT)
            memory_fits = usage.memory[t, n] + memory_gb <= capacity.memory[k] * (1.0 + FIT)
            if compute_fits and memory_fits:
                most = s
                nodes[t - first] = n
        done += most
        if done >= needed:
            _drop_surplus(capacity, throughput, t - first, done - needed, nodes)
            return True
    return False


@kernel
def _drop_surplus(
    capacity: Capacity, throughput: Floats, finish: int, surplus: float, nodes: Ints
) -> None:
    while True:
        least, which = surplus, -1
        for i in range(finish):
            if nodes[i] >= 0:
                s = throughput[capacity.type_of[nodes[i]]]
                if s < least or (s == least and which < 0):
                    least, which = s, i
        if which < 0:
            return
        nodes[which] = -1
        surplus -= least
