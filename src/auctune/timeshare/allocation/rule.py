"""Rules that turn remaining work into shares of the pool."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from auctune.numerics.arrays import Bools, Floats, Ints
from auctune.numerics.jit import kernel
from auctune.timeshare.allocation.moore_hodgson import choose

# From the threads to be done to shares of the next unit of time; LARA, (3.8) and Algorithm 2.
#
# Of the threads in C, by due date, each gets of what the earlier ones leave the share that lets it
# end just in time:
#
#     rel_k = p_k / (d_k - d_0 - sum of p of the earlier ones in C),
#     eta_k = rel_k prod over the earlier ones of (1 - rel_i),
#
# kept until a due date passes; then, so that no time is wasted, all are scaled to sum to 1.


@kernel
def relative_shares(
    order: Ints, kept: Bools, need: Floats, slack: Floats, relative: Floats, eta: Floats
) -> None:
    """Shares of the unit that begins, before they are scaled.

    Args:
        order: [k] threads by due date.
        kept: [k] C.
        need, slack: [k] p and d_k - d_0.
        relative, eta: [k] rel and eta, 0 outside C; written.
    """
    relative[:] = 0.0
    eta[:] = 0.0
    before, rest = 0.0, 1.0
    for k in order:
        if not kept[k]:
            continue
        # Threads that just fit exceed 1 by rounding, and of tiny ones nothing may be left.
        room = slack[k] - before
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
    """Return the pool in even parts for the chosen threads; returns how many they are."""
    count = 0
    for one in chosen:
        if one:
            count += 1
    for k in range(len(eta)):
        eta[k] = 1.0 / count if chosen[k] else 0.0
    return count


@kernel
def winner_takes_all(key: Floats, active: Bools, eta: Floats) -> None:
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


class Demand(NamedTuple):
    """What the active threads of a unit of time need.

    Attributes:
        order: [k] threads by deadline.
        active: [k] those that may learn in this unit and are not done.
        need: [k] batches, >= 1 or infinite.
        rate: [k] N, batches a unit with the whole pool.
        slack: [k] d - tau, units until the deadline; >= 1 of those that are active.
        window: [k] d - b.
    """

    order: Ints
    active: Bools
    need: Floats
    rate: Floats
    slack: Floats
    window: Floats


class Rule(Protocol):
    """A way to share a unit of time, for given needs."""

    @property
    def name(self) -> str:
        """As tables name it."""
        ...

    def share(self, demand: Demand, eta: Floats) -> None:
        """Write the shares [k]; no thread that is not active gets one, and none is wasted."""
        ...


@kernel
def share_by_lara(demand: Demand, eta: Floats) -> None:
    """The paper's rule, with what it leaves open.

    Infinite needs never enter C. With C empty the pool goes to the thread with the least finite
    p_k / (d_k - d_0), and evenly to all if none is finite.
    """
    num = len(eta)
    need, kept = np.empty(num), np.empty(num, dtype=np.bool_)
    for k in range(num):
        need[k] = demand.need[k] / demand.rate[k] if demand.active[k] else np.inf
    if choose(demand.order, need, demand.slack, kept):
        relative_shares(demand.order, kept, need, demand.slack, np.empty(num), eta)
        scale(eta)
        return
    for k in range(num):
        need[k] = need[k] / demand.slack[k] if demand.active[k] else np.inf
    winner_takes_all(need, demand.active, eta)


@kernel
def share_by_need(demand: Demand, eta: Floats) -> None:
    """All for the least S_k; evenly if none is finite."""
    winner_takes_all(demand.need, demand.active, eta)


@kernel
def share_by_ease(demand: Demand, eta: Floats) -> None:
    """All for the least S_k / (d_k - b_k); evenly if none is finite."""
    winner_takes_all(demand.need / demand.window, demand.active, eta)


@dataclass(frozen=True, slots=True)
class KernelRule:
    """A rule without parameters."""

    name: str
    kernel: Callable[[Demand, Floats], None]

    def share(self, demand: Demand, eta: Floats) -> None:
        self.kernel(demand, eta)


MOORE_HODGSON = KernelRule("lara", share_by_lara)
"""LARA's rule, Algorithm 1 and (3.8): those of C, each just in time."""

LEAST_RESOURCES_FIRST = KernelRule("lrf", share_by_need)
"""LRF: all for the thread that needs the fewest batches."""

EASIEST_FIRST = KernelRule("etf", share_by_ease)
"""ETF: all for the thread with the least need by the time it was given."""
