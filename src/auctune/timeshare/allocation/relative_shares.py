"""From the threads to be done to shares of the next unit of time; LARA, (3.8) and Algorithm 2.

Of the threads in C, by due date, each gets of what the earlier ones leave the share that lets it
end just in time:

    rel_k = p_k / (d_k - d_0 - sum of p of the earlier ones in C),
    eta_k = rel_k prod over the earlier ones of (1 - rel_i),

kept until a due date passes; then, so that no time is wasted, all are scaled to sum to 1.
"""

import numpy as np

from auctune.numerics.jit import kernel
from auctune.timeshare.arrays import Bools, Floats, Ints


@kernel
def relative_shares(
    order: Ints, kept: Bools, need: Floats, left: Floats, relative: Floats, eta: Floats
) -> None:
    """Shares of the unit that begins, before they are scaled.

    Args:
        order: [k] threads by due date.
        kept: [k] C.
        need, left: [k] p and d_k - d_0.
        relative, eta: [k] rel and eta, 0 outside C; written.
    """
    relative[:] = 0.0
    eta[:] = 0.0
    before, rest = 0.0, 1.0
    for k in order:
        if not kept[k]:
            continue
        # Threads that just fit exceed 1 by rounding, and of tiny ones nothing may be left.
        room = left[k] - before
        relative[k] = need[k] / room if need[k] < room else 1.0
        eta[k] = relative[k] * rest
        rest *= 1.0 - relative[k]
        before += need[k]


@kernel
def scale(eta: Floats) -> None:
    """Make the shares sum to 1, if there are any."""
    total = 0.0
    for share in eta:
        total += share
    if total > 0.0:
        for k in range(len(eta)):
            eta[k] /= total


@kernel
def share_evenly(chosen: Bools, eta: Floats) -> int:
    """The pool in even parts for the chosen threads; returns how many they are."""
    count = 0
    for one in chosen:
        if one:
            count += 1
    for k in range(len(eta)):
        eta[k] = 1.0 / count if chosen[k] else 0.0
    return count


@kernel
def give_all(key: Floats, active: Bools, eta: Floats) -> None:
    """The pool for the active thread with the least key; evenly for all if none is finite."""
    best = -1
    for k in range(len(key)):
        if active[k] and key[k] < np.inf and (best < 0 or key[k] < key[best]):
            best = k
    if best < 0:
        share_evenly(active, eta)
        return
    eta[:] = 0.0
    eta[best] = 1.0
