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
    """Leave the m slots j of least weight of type k in `scratch.heap_slot[:m]`, in slot order.

    Equal weights: the earlier slot, which is also the earlier finish and the lexicographically
    first list. Infinite weights are no cells.

    Returns:
        The sum of their weights; infinite if there are fewer than m.
    """
    num_types = len(search.units)
    weight, key = search.scratch.weight, search.scratch.heap_key
    size = 0
    for j in range(window.first, window.last):
        w = weight[j * num_types + k]
        if w == np.inf:
            continue
        if size < m:
            size += 1
            _sift_up(key, size - 1, w)
        elif w < key[0]:
            _sift_down(key, size, w)
    if size < m:
        return np.inf
    return _take_earliest(search, window, k, m)


@kernel
def _take_earliest(search: Search, window: Window, k: int, m: int) -> float:
    """Choose among slots whose weights are the heap's root but for rounding: the earlier ones."""
    num_types = len(search.units)
    weight, key = search.scratch.weight, search.scratch.heap_key
    low, high = key[0] * (1.0 - TIE), key[0] * (1.0 + TIE)
    num_tied = 0
    for i in range(m):
        if key[i] >= low:
            num_tied += 1
    total, count = 0.0, 0
    for j in range(window.first, window.last):
        w = weight[j * num_types + k]
        if w >= low:
            if w > high or num_tied == 0:
                continue
            num_tied -= 1
        search.scratch.heap_slot[count] = j
        total += w
        count += 1
    return total


@kernel
def _sift_up(key: Floats, place: int, w: float) -> None:
    """Put w into the heap whose root is the greatest."""
    while place > 0:
        parent = (place - 1) // 2
        if key[parent] >= w:
            break
        key[place] = key[parent]
        place = parent
    key[place] = w


@kernel
def _sift_down(key: Floats, size: int, w: float) -> None:
    """Replace the root by w."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        right = child + 1
        if right < size and key[right] > key[child]:
            child = right
        if key[child] <= w:
            break
        key[place] = key[child]
        place = child
    key[place] = w
