"""An upper bound on the welfare of any decisions, all bids known, for instances of any size.

The Lagrangian dual near its minimum; each task's best answer is over whole cells and one vendor,
which makes the bound tighter than the linear relaxation of the program (4) of Zheng et al., ICPP
2024. It knows node types, not nodes: that tasks must be packed into single nodes is relaxed.

Any prices give a true bound, in exact arithmetic. In floats the value at the prices found is taken
with all bids a little higher: costs are sums of at most 2 T + 2 terms >= 0, nothing ever taken off,
so that with T slots they are at most (2 T + 8) * 2^-53 of themselves too high, and whatever their
size no surplus is too low by more than that share of its task's bid; the sum over tasks of
surpluses >= 0 loses less than a share of I * 2^-53. `_ROUNDING` covers both up to a million of
slots and of tasks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from auctune.auction.book import Floats
from auctune.auction.dual.columns import to_columns
from auctune.auction.dual.cutting_planes import CuttingParams, cut_down
from auctune.auction.dual.descent import DescentParams, descend, usual_prices
from auctune.auction.dual.dual import Dual, DualPrices
from auctune.auction.dual.supply import whole_supply
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
        cutting: what follows on markets that are small enough.
    """

    descent: DescentParams = field(default_factory=DescentParams)
    relaxed: DescentParams = field(default_factory=lambda: DescentParams(max_steps=100))
    max_responses: int = 800
    gain: float = 1e-6
    cutting: CuttingParams = field(default_factory=CuttingParams)

    def __post_init__(self) -> None:
        if self.max_responses < 1:
            raise ValueError(f"max_responses is {self.max_responses!r}; expected a number >= 1")
        if not 0 <= self.gain < math.inf:
            raise ValueError(f"gain is {self.gain!r}; expected a number >= 0")


@dataclass(frozen=True, slots=True)
class DualBound:
    """A certificate: at these prices no decisions can be worth more than `value`.

    Attributes:
        value: money.
        lam: [T, K] shadow prices, money per sample.
        phi: [T, K] money per GB-slot.
        gap: by how much less, at most, the dual is worth at any other prices, money; none if that
            is not known. It says nothing of the distance from the best decisions.
    """

    value: float
    lam: Floats
    phi: Floats
    gap: float | None = None


def lagrangian_bound(
    cluster: Cluster, tasks: Sequence[Task], params: BoundParams | None = None
) -> DualBound:
    """A true upper bound on the welfare of any feasible decisions on `tasks`."""
    params = params or BoundParams()
    columns = to_columns(tasks, cluster)
    dual = Dual(whole_supply(cluster), columns, np.ones(len(tasks)))
    best = _descents(dual, params)
    lower = None
    if columns.throughput.size * cluster.slots <= params.cutting.max_cells:
        best, lower = cut_down(dual, best, params.cutting)
    value = _certified(dual, best)
    gap = None if lower is None else max(0.0, value - lower)
    return DualBound(value, best.lam, best.phi, gap)


def _descents(dual: Dual, params: BoundParams) -> DualPrices:
    """The best prices of some descents, each from where the last one ended.

    What a descent has learned of the curvature is of no use across an edge; without it the next
    one goes on.
    """
    first = descend(dual.relaxed(), usual_prices(dual), params.relaxed)
    best = DualPrices(math.inf, first.lam, first.phi)
    while (left := params.max_responses - dual.num_responses) > 0:
        steps = min(params.descent.max_steps, left)
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
