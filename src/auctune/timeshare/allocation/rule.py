"""From needs to shares: the rules that allocators are made of."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from auctune.numerics.jit import kernel
from auctune.timeshare.allocation.closeness import apart, check_near
from auctune.timeshare.allocation.moore_hodgson import choose
from auctune.timeshare.allocation.relative_shares import (
    give_all,
    relative_shares,
    scale,
    share_evenly,
)
from auctune.timeshare.arrays import Bools, Floats, Ints


class Demand(NamedTuple):
    """What the active threads of a unit of time need.

    Attributes:
        order: [k] threads by deadline.
        active: [k] those that may learn in this unit and are not done.
        need: [k] batches, >= 1 or infinite.
        rate: [k] N, batches a unit with the whole pool.
        left: [k] d - tau, units until the deadline; >= 1 of those that are active.
        span: [k] d - b.
    """

    order: Ints
    active: Bools
    need: Floats
    rate: Floats
    left: Floats
    span: Floats


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
    if choose(demand.order, need, demand.left, kept, np.empty(num, dtype=np.int64)):
        relative_shares(demand.order, kept, need, demand.left, np.empty(num), eta)
        scale(eta)
        return
    for k in range(num):
        need[k] = need[k] / demand.left[k] if demand.active[k] else np.inf
    give_all(need, demand.active, eta)


@kernel
def share_by_due(demand: Demand, eta: Floats) -> None:
    """All for the thread of C that is due first; evenly if C is empty."""
    num = len(eta)
    need, kept = np.empty(num), np.empty(num, dtype=np.bool_)
    for k in range(num):
        need[k] = demand.need[k] / demand.rate[k] if demand.active[k] else np.inf
    choose(demand.order, need, demand.left, kept, np.empty(num, dtype=np.int64))
    give_all(demand.left, kept, eta)
    if not kept.any():
        share_evenly(demand.active, eta)


@kernel
def share_by_closeness(demand: Demand, near: float, eta: Floats) -> None:
    """One after another, or the paper's shares while deadlines are close together."""
    possible = demand.active & (demand.need < np.inf)
    if apart(demand.left, possible, near):
        share_by_due(demand, eta)
    else:
        share_by_lara(demand, eta)


@kernel
def share_by_need(demand: Demand, eta: Floats) -> None:
    """All for the least S_k; evenly if none is finite."""
    give_all(demand.need, demand.active, eta)


@kernel
def share_by_ease(demand: Demand, eta: Floats) -> None:
    """All for the least S_k / (d_k - b_k); evenly if none is finite."""
    give_all(demand.need / demand.span, demand.active, eta)


@dataclass(frozen=True, slots=True)
class MooreHodgson:
    """LARA's: Algorithm 1 and (3.8)."""

    @property
    def name(self) -> str:
        """The paper's."""
        return "lara"

    def share(self, demand: Demand, eta: Floats) -> None:
        """Those of C, each just in time."""
        share_by_lara(demand, eta)


@dataclass(frozen=True, slots=True)
class EarliestFirst:
    """All for the thread of Algorithm 1's C that is due first.

    C can be done in this order, too, and a need that was said too low then makes one thread late
    and not, as with shares that are just enough, all of them.
    """

    @property
    def name(self) -> str:
        """By the rule's name in scheduling."""
        return "edf"

    def share(self, demand: Demand, eta: Floats) -> None:
        """All for one."""
        share_by_due(demand, eta)


@dataclass(frozen=True, slots=True)
class Paced:
    """The earliest first while deadlines are apart; the paper's shares while they are close.

    Attributes:
        near: least time left of all threads, over the greatest, at which deadlines are close;
            above 1 they never are.
    """

    near: float = 0.5

    def __post_init__(self) -> None:
        check_near(self.near)

    @property
    def name(self) -> str:
        """Ours."""
        return "paced"

    def share(self, demand: Demand, eta: Floats) -> None:
        """All for one, or some for all of C."""
        share_by_closeness(demand, self.near, eta)


@dataclass(frozen=True, slots=True)
class LeastResourcesFirst:
    """LRF: all for the thread that needs the fewest batches."""

    @property
    def name(self) -> str:
        """The paper's."""
        return "lrf"

    def share(self, demand: Demand, eta: Floats) -> None:
        """All for one."""
        share_by_need(demand, eta)


@dataclass(frozen=True, slots=True)
class EasiestFirst:
    """ETF: all for the thread with the least need by the time it was given."""

    @property
    def name(self) -> str:
        """The paper's."""
        return "etf"

    def share(self, demand: Demand, eta: Floats) -> None:
        """All for one."""
        share_by_ease(demand, eta)
