"""The least-cost cells where one node type runs the task: the m cheapest slots.

With weights w_j of the slots that have a cell, and m = ceil(M / s) cells needed, every feasible
schedule holds at least m cells, and weights are not negative, so the m least weights are best.
"""

import numpy as np

from auctune.auction.search.problem import Search, Window
from auctune.numerics.arrays import TIE, Floats
from auctune.numerics.jit import kernel


@kernel
def cheapest_slots(search: Search, window: Window, k: int, m: int) -> float:
    """Leave the m slots of least weight of type k in `scratch.cell_slots[:m]`, in their order.

    Weights that equal the dearest chosen one but for rounding: the earlier slot, which is also the
    earlier finish and the lexicographically first list. Infinite weights are no cells.

    Returns:
        The sum of their weights; infinite if there are fewer than m.
    """
    num_types = len(search.units)
    weight, heap = search.scratch.weight, search.scratch.heap
    # The m least weights so far, the greatest of them at the root. `np.partition` would allocate,
    # which takes longer than all of this in most windows.
    size = 0
    for j in range(window.first, window.last):
        w = weight[j * num_types + k]
        if w == np.inf:
            continue
        if size < m:
            size += 1
            _sift_up(heap, size - 1, w)
        elif w < heap[0]:
            _sift_down(heap, size, w)
    if size < m:
        return np.inf
    low, high = heap[0] * (1.0 - TIE), heap[0] * (1.0 + TIE)
    num_tied = 0
    for w in heap[:m]:
        num_tied += w >= low
    total, count = 0.0, 0
    for j in range(window.first, window.last):
        w = weight[j * num_types + k]
        if w >= low:
            if w > high or num_tied == 0:
                continue
            num_tied -= 1
        search.scratch.cell_slots[count] = window.origin + j
        total += w
        count += 1
    return total


@kernel
def _sift_up(heap: Floats, place: int, w: float) -> None:
    """Put w into the heap, from its end on."""
    while place > 0:
        parent = (place - 1) // 2
        if heap[parent] >= w:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = w


@kernel
def _sift_down(heap: Floats, size: int, w: float) -> None:
    """Replace the root by w."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        right = child + 1
        if right < size and heap[right] > heap[child]:
            child = right
        if heap[child] <= w:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = w
