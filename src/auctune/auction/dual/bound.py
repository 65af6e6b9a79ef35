"""An upper bound on the welfare of any decisions, all bids known, for instances of any size.

The Lagrangian dual near its minimum; each task's best answer is over whole cells and one vendor,
which makes the bound tighter than the linear relaxation of the program (4) of Zheng et al., ICPP
2024. It knows node types, not nodes: that tasks must be packed into single nodes is relaxed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.auction.book import Floats
from auctune.auction.dual.columns import to_columns
from auctune.auction.dual.descent import DescentParams, minimize_dual
from auctune.auction.dual.supply import whole_supply
from auctune.domain import Cluster, Task

# Far above what sums of floats in another order can differ by.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class DualBound:
    """A certificate: at these prices no decisions can be worth more than `value`.

    Attributes:
        value: money.
        lam: [T, K] shadow prices, money per sample.
        phi: [T, K] money per GB-slot.
    """

    value: float
    lam: Floats
    phi: Floats


def lagrangian_bound(
    cluster: Cluster, tasks: Sequence[Task], params: DescentParams | None = None
) -> DualBound:
    """A true upper bound on the welfare of any feasible decisions on `tasks`."""
    columns = to_columns(tasks, cluster)
    prices = minimize_dual(
        whole_supply(cluster), columns, np.ones(columns.num_tasks), params=params
    )
    return DualBound(prices.value * (1 + _ROUNDING), prices.lam, prices.phi)
