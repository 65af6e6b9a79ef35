"""An upper bound on the welfare of any decisions, all bids known, for instances of any size.

The Lagrangian dual near its minimum; each task's best answer is over whole cells and one vendor,
which makes the bound tighter than the linear relaxation of the program (4) of Zheng et al., ICPP
2024. It knows node types, not nodes: that tasks must be packed into single nodes is relaxed.

Any prices give a true bound, in exact arithmetic. In floats the value at the prices found is
taken with all bids a little higher: costs are sums of at most 2 T + 2 terms >= 0, nothing ever
taken off, so that with T slots they are at most (2 T + 8) * 2^-53 of themselves too high, and
whatever their size no surplus is too low by more than that share of its task's bid; the sum over
tasks of surpluses >= 0 loses less than a share of I * 2^-53. `_ROUNDING` covers both up to a
million of slots and of tasks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from auctune.auction.dual.columns import to_columns, whole_supply
from auctune.auction.dual.descent import DescentParams, descend, initial_prices
from auctune.auction.dual.dual import Dual, DualPrices
from auctune.domain import Cluster, Task

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class BoundParams:
    """How hard to try.

    Attributes:
        descent: of each descent.
        relaxed: of the one before them, with relaxed answers, which begins far off at little cost.
        max_responses: how often all tasks are asked, after which no descent is begun; >= 1. On a
            large market this is what takes time.
        gain: share of the value that a descent must gain for another one to follow, >= 0.
    """

    descent: DescentParams = field(default_factory=DescentParams)
    relaxed: DescentParams = field(default_factory=lambda: DescentParams(max_steps=100))
    max_responses: int = 800
    gain: float = 1e-6

    def __post_init__(self) -> None:
        if self.max_responses < 1:
            raise ValueError(f"max_responses is {self.max_responses!r}; expected a number >= 1")
        if not 0 <= self.gain < math.inf:
            raise ValueError(f"gain is {self.gain!r}; expected a number >= 0")


def lagrangian_bound(
    cluster: Cluster, tasks: Sequence[Task], params: BoundParams | None = None
) -> DualPrices:
    """Return a true upper bound on the welfare of any feasible decisions, and what proves it.

    At the prices [T, K] that come with the value no decisions on `tasks` can be worth more.
    """
    dual = Dual(whole_supply(cluster), to_columns(tasks, cluster), np.ones(len(tasks)))
    best = _descents(dual, params or BoundParams())
    return replace(best, value=_certified(dual, best))


def _descents(dual: Dual, params: BoundParams) -> DualPrices:
    """Return the best prices of some descents, each from where the last one ended.

    What a descent has learned of the curvature is of no use across an edge; without it the next
    one goes on.
    """
    first = descend(dual.relaxed(), initial_prices(dual), params.relaxed)
    best = DualPrices(math.inf, first.lam, first.phi)
    while (remaining := params.max_responses - dual.num_responses) > 0:
        steps = min(params.descent.max_steps, remaining)
        found = descend(dual, best, replace(params.descent, max_steps=steps))
        gain = best.value - found.value
        if gain > 0:
            best = found
        if gain <= params.gain * best.value:
            break
    return best


def _certified(dual: Dual, prices: DualPrices) -> float:
    """D at these prices, and no less for any rounding."""
    raised = dual.with_bids(dual.columns.bid * (1 + _ROUNDING))
    return raised.value(raised.respond(prices.lam, prices.phi)) * (1 + _ROUNDING)
