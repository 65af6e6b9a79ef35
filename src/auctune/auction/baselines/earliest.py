"""The cells with which a task finishes as early as it can.

In each slot the most productive cell with room is taken, until the work is done: no schedule ends
earlier. Then cells that the work does not need are dropped, the least productive first and the
earlier of equals, which leaves the finish as it is.
"""

from auctune.auction.book import Capacity, Floats, Ints, Usage
from auctune.auction.tolerance import FIT
from auctune.numerics.jit import kernel


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
