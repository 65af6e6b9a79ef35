"""The most threads that can be done in time, for given needs: Moore-Hodgson; LARA, Algorithm 1.

One pool works on threads with needs p_k (units of time of the whole pool) and times left
d_k - d_0. Of the threads taken by due date, the longest is dropped whenever the needs of those kept
exceed the time up to the last one's due date:

    for k by due date:  C = C + k;  if sum_C p > d_k - d_0:  C = C - argmax_C p.

No other set that the pool can finish, each thread by its due date, has more threads (Moore 1968).
With a heap of the kept ones it takes O(K log K).
"""

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Bools, Floats, Ints
from auctune.numerics.jit import kernel

# Sums of needs that fill the time exactly miss it by rounding.
TOLERANCE = 1e-9


@kernel
def push(heap: Ints, size: int, key: Floats, item: int) -> None:
    """Put an item on a heap of `size` items, the one with the greatest key on top."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        if key[heap[above]] >= key[item]:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = item


@kernel
def pop(heap: Ints, size: int, key: Floats) -> int:
    """Take the top of a heap of `size` items."""
    top, last = int(heap[0]), heap[size - 1]
    at, end = 0, size - 1
    while True:
        below = 2 * at + 1
        if below >= end:
            break
        if below + 1 < end and key[heap[below + 1]] > key[heap[below]]:
            below += 1
        if key[heap[below]] <= key[last]:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = last
    return top


@kernel
def choose(order: Ints, need: Floats, left: Floats, kept: Bools, heap: Ints) -> int:
    """Which threads to do; returns how many.

    Args:
        order: [k] threads by due date.
        need: [k] p, infinite for those that are not to be done.
        left: [k] d_k - d_0.
        kept: [k] whether a thread is in C; written.
        heap: [k] scratch.
    """
    size, total = 0, 0.0
    kept[:] = False
    for k in order:
        if not need[k] < np.inf:
            continue
        push(heap, size, need, k)
        size += 1
        total += need[k]
        kept[k] = True
        if total > left[k] + TOLERANCE * (1.0 + abs(left[k])):
            dropped = pop(heap, size, need)
            size -= 1
            kept[dropped] = False
            total -= need[dropped]
    return size


def moore_hodgson(need: Floats, left: Floats) -> Bools:
    """Which threads to do.

    Args:
        need: [k] units of time of the whole pool, > 0; infinite for what is out of reach.
        left: [k] units of time until the due dates.

    Returns:
        [k] whether a thread is in C.

    Raises:
        InputError: if a need is not above 0, or the shapes differ.
    """
    need, left = np.asarray(need, dtype=np.float64), np.asarray(left, dtype=np.float64)
    if need.ndim != 1 or left.shape != need.shape:
        found = f"shape {left.shape} beside {need.shape} of need"
        raise InputError("left", found, "one need and one time left for each thread")
    wrong = np.flatnonzero(~(need > 0))
    if len(wrong):
        raise InputError(f"need[{wrong[0]}]", f"{need[wrong[0]]}", "a number > 0")
    kept = np.zeros(len(need), dtype=np.bool_)
    order = np.argsort(left, kind="stable").astype(np.int64)
    choose(order, need, left, kept, np.empty(len(need), dtype=np.int64))
    return kept
