"""The most threads that can be done in time, for given needs: Moore-Hodgson; LARA, Algorithm 1.

One pool works on threads with needs p_k (units of time of the whole pool) and times left
d_k - d_0. Of the threads taken by due date, the longest is dropped whenever the needs of those kept
exceed the time up to the last one's due date:

    for k by due date:  C = C + k;  if sum_C p > d_k - d_0:  C = C - argmax_C p.

No other set that the pool can finish, each thread by its due date, has more threads (Moore 1968).
With a heap of the kept ones it takes O(K log K).
"""

from heapq import heappop, heappush

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Bools, Floats, Ints
from auctune.numerics.jit import kernel

# Sums of needs that fill the time exactly miss it by rounding.
TOLERANCE = 1e-9


@kernel
def choose(order: Ints, need: Floats, slack: Floats, kept: Bools) -> int:
    """Which threads to do; returns how many.

    Args:
        order: [k] threads by due date.
        need: [k] p, infinite for those that are not to be done.
        slack: [k] d_k - d_0.
        kept: [k] whether a thread is in C; written.
    """
    kept[:] = False
    total, longest = 0.0, [(0.0, 0) for _ in range(0)]
    for k in order:
        if not need[k] < np.inf:
            continue
        heappush(longest, (-need[k], k))
        total += need[k]
        kept[k] = True
        if total > slack[k] + TOLERANCE * (1.0 + abs(slack[k])):
            _, dropped = heappop(longest)
            kept[dropped] = False
            total -= need[dropped]
    return len(longest)


def moore_hodgson(need: Floats, slack: Floats) -> Bools:
    """Which threads to do.

    Args:
        need: [k] units of time of the whole pool, > 0; infinite for what is out of reach.
        slack: [k] units of time until the due dates.

    Returns:
        [k] whether a thread is in C.

    Raises:
        InputError: if a need is not above 0, or the shapes differ.
    """
    need, slack = np.asarray(need, dtype=np.float64), np.asarray(slack, dtype=np.float64)
    if need.ndim != 1 or slack.shape != need.shape:
        found = f"shape {slack.shape} beside {need.shape} of need"
        raise InputError("slack", found, "one need and one time left for each thread")
    wrong = np.flatnonzero(~(need > 0))
    if len(wrong):
        raise InputError(f"need[{wrong[0]}]", f"{need[wrong[0]]}", "a number > 0")
    kept = np.zeros(len(need), dtype=np.bool_)
    order = np.argsort(slack, kind="stable").astype(np.int64)
    choose(order, need, slack, kept)
    return kept
