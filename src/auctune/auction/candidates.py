"""The nodes of one type and slot that are undominated by use, kept as cells are sold.

A node is dominated by another that is used no more in both compute and memory. The undominated
ones form a staircase: compute rises, memory falls. A lost node's use is infinite; it is never
listed.
"""

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel


@kernel
def change_use(
    type_of: Ints,
    nodes_of: Ints,
    first_of: Ints,
    used_compute: Floats,
    used_memory: Floats,
    num_tasks: Ints,
    candidates: Ints,
    num_candidates: Ints,
    rows: Ints,
    nodes: Ints,
    throughput: Floats,
    memory_gb: float,
    sign: int,
    prune: bool,
) -> None:
    """Change what is sold of cells, and the lists of candidates if they are kept by use.

    Args: the fields of Capacity and Usage that it takes, see ledger.py: called once an admission,
    and plain arrays pass far quicker than tuples of them.
        rows, nodes: of the cells.
        throughput, memory_gb: of the task, [K] samples per slot and GB.
        sign: 1 to sell, -1 to take back.
        prune: whether candidates are kept by use.
    """
    for i in range(len(rows)):
        t, n = rows[i], nodes[i]
        k = type_of[n]
        num_tasks[t, n] += sign
        if used_compute[t, n] == np.inf:
            # Of a lost node nothing is for sale, however little is left on it.
            continue
        if num_tasks[t, n] == 0:
            # Subtracting leaves rounding behind; an empty cell is exactly empty.
            used_compute[t, n] = 0.0
            used_memory[t, n] = 0.0
        else:
            used_compute[t, n] += sign * throughput[k]
            used_memory[t, n] += sign * memory_gb
        if not prune:
            continue
        group = slice(first_of[k], first_of[k + 1])
        compute, memory, listed = used_compute[t], used_memory[t], candidates[t, group]
        count = num_candidates[t, k]
        if sign > 0:
            count = list_after_rise(compute, memory, nodes_of[group], listed, count, n)
        else:
            count = list_after_fall(compute, memory, listed, count, n)
        num_candidates[t, k] = count


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
        if used_compute[n] < np.inf:
            count = _insert(used_compute, used_memory, n, listed, count)
    return count


@kernel
def list_open(used_compute: Floats, nodes: Ints, listed: Ints) -> int:
    """List all nodes of one type that are not lost; their number."""
    count = 0
    for n in nodes:
        if used_compute[n] < np.inf:
            listed[count] = n
            count += 1
    return count


@kernel
def list_after_rise(
    used_compute: Floats, used_memory: Floats, nodes: Ints, listed: Ints, count: int, risen: int
) -> int:
    """Mend the list after the use of node `risen` grew; how many are listed.

    A node that was dominated still is. One that was listed goes from its place, and only what it
    alone dominated may come in: nodes with less compute use than the next one and less memory
    use than the one before.
    """
    place = 0
    while place < count and listed[place] != risen:
        place += 1
    if place == count:
        return count
    count -= 1
    for i in range(place, count):
        listed[i] = listed[i + 1]
    most_compute = used_compute[listed[place]] if place < count else np.inf
    most_memory = used_memory[listed[place - 1]] if place > 0 else np.inf
    while True:
        step = _next_step(used_compute, used_memory, nodes, most_compute, most_memory)
        if step < 0:
            return count
        for i in range(count, place, -1):
            listed[i] = listed[i - 1]
        listed[place] = step
        place, count = place + 1, count + 1
        most_memory = used_memory[step]


@kernel
def _next_step(
    used_compute: Floats, used_memory: Floats, nodes: Ints, most_compute: float, most_memory: float
) -> int:
    """The node with the least compute use, and then memory use, of those below both; else -1."""
    step, least = -1, most_compute
    if most_memory == 0.0:
        return step
    for n in nodes:
        if used_compute[n] > least or used_memory[n] >= most_memory:
            continue
        if used_compute[n] < least or (step >= 0 and used_memory[n] < used_memory[step]):
            step, least = int(n), used_compute[n]
    return step


@kernel
def list_after_fall(
    used_compute: Floats, used_memory: Floats, listed: Ints, count: int, fallen: int
) -> int:
    """Mend the list after the use of node `fallen` shrank; how many are listed."""
    place = 0
    while place < count and listed[place] != fallen:
        place += 1
    if place < count:
        count -= 1
        for i in range(place, count):
            listed[i] = listed[i + 1]
    return _insert(used_compute, used_memory, fallen, listed, count)


@kernel
def _insert(used_compute: Floats, used_memory: Floats, n: int, listed: Ints, count: int) -> int:
    compute, memory = used_compute[n], used_memory[n]
    place = 0
    while place < count and used_compute[listed[place]] < compute:
        place += 1
    # Those before `place` use less compute, and the last of them least memory; an equal one
    # stands at `place`, and the one seen earlier stays.
    if place > 0 and used_memory[listed[place - 1]] <= memory:
        return count
    if (
        place < count
        and used_compute[listed[place]] == compute
        and used_memory[listed[place]] <= memory
    ):
        return count
    end = place
    while end < count and used_memory[listed[end]] >= memory:
        end += 1
    if end == place:
        for j in range(count, place, -1):
            listed[j] = listed[j - 1]
    else:
        for j in range(end, count):
            listed[place + 1 + j - end] = listed[j]
    listed[place] = n
    return count + 1 - (end - place)
