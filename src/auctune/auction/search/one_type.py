"""The least-cost slots where one node type runs the task: the m cheapest.

With weights w_j of the slots that have a cell, and m = ceil(M / s) cells needed, every feasible
schedule holds at least m cells, and weights are not negative, so the m least weights are best.
"""

import numpy as np

from auctune.auction.book import Floats, Ints
from auctune.auction.search.problem import Search, Window
from auctune.numerics.jit import kernel


@kernel
def cheapest_slots(search: Search, window: Window, k: int, m: int) -> float:
    """Leave the m slots j of least weight of type k in `scratch.heap_slot[:m]`, unordered.

    Equal weights: the earlier slot, which is also the earlier finish and the lexicographically
    first list. Infinite weights are no cells.

    Returns:
        The sum of their weights; infinite if there are fewer than m.
    """
    num_types = len(search.request.units)
    weight = search.scratch.weight
    key, slot = search.scratch.heap_key, search.scratch.heap_slot
    size = 0
    for j in range(window.first, window.last):
        w = weight[j * num_types + k]
        if w == np.inf:
            continue
        if size < m:
            size += 1
            _sift_up(key, slot, size - 1, w, j)
        elif w < key[0]:
            _sift_down(key, slot, size, w, j)
    if size < m:
        return np.inf
    total = 0.0
    for i in range(m):
        total += key[i]
    return total


@kernel
def _sift_up(key: Floats, slot: Ints, place: int, w: float, j: int) -> None:
    """Put (w, j) into the heap whose root is the greatest by (weight, slot)."""
    while place > 0:
        parent = (place - 1) // 2
        # Slots come in rising order: an equal weight is later, so it is the greater one.
        if key[parent] > w:
            break
        key[place], slot[place] = key[parent], slot[parent]
        place = parent
    key[place], slot[place] = w, j


@kernel
def _sift_down(key: Floats, slot: Ints, size: int, w: float, j: int) -> None:
    """Replace the root by (w, j)."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            key[right] > key[child] or (key[right] == key[child] and slot[right] > slot[child])
        ):
            child = right
        if key[child] < w or (key[child] == w and slot[child] < j):
            break
        key[place], slot[place] = key[child], slot[child]
        place = child
    key[place], slot[place] = w, j
