"""The least-cost cells, one a slot, that do the work: the covering problem of a vendor's window.

Weights of cells are in `scratch.weight`; those of this module add up each cell's own prices.
"""

import numpy as np

from auctune.auction.search.lower_bound import dual_price
from auctune.auction.search.one_type import cheapest_slots
from auctune.auction.search.problem import (
    FOUND,
    NOT_FOUND,
    SLACK,
    UNITS_NEEDED,
    Search,
    Thresholds,
    Window,
)
from auctune.auction.search.several_types import cover
from auctune.auction.search.total_order import consider
from auctune.numerics.arrays import Ints
from auctune.numerics.jit import kernel


@kernel
def only_type(units: Ints) -> int:
    """Return the one type that can run the task; -1 if there are several."""
    found = -1
    for k in range(len(units)):
        if units[k] > 0:
            if found >= 0:
                return -1
            found = k
    return found


@kernel
def weigh_sum(search: Search, window: Window) -> None:
    """Weight of a cell: e + lam * s + phi * r, of the cheapest one of its type and slot."""
    entries, request, num_types = search.entries, search.request, len(search.units)
    start, weight = entries.start, search.scratch.weight
    for j in range(window.first, window.last):
        for k in range(num_types):
            at = j * num_types + k
            least = np.inf
            for i in range(start[at], start[at + 1]):
                price = entries.lam[i] * request.throughput[k] + entries.phi[i] * request.memory_gb
                least = min(least, price)
            weight[at] = least + request.operating_cost[k, window.origin + j]


@kernel
def least_weight(search: Search, window: Window) -> float:
    """Return a lower bound on the weight of any schedule in the window, infinite if none fits."""
    k = only_type(search.units)
    if k >= 0:
        return cheapest_slots(search, window, k, -(-UNITS_NEEDED // search.units[k]))
    weight, first, last = search.scratch.weight, window.first, window.last
    return dual_price(weight, search.units, UNITS_NEEDED, first, last, 0.0, np.inf)[1]


@kernel
def search_weights(search: Search, window: Window, reach: Thresholds) -> int:
    """Find the best schedule with the window's vendor; keep it if it is the best of all.

    Args:
        reach: thresholds that the weights were made under.

    Returns:
        FOUND, NOT_FOUND (none costs less than the best so far) or NEED_MORE_LABELS.
    """
    scratch, best = search.scratch, search.best
    limit = best.cost[0] * (1.0 + SLACK) - search.request.quote_price[window.quote]
    k = only_type(search.units)
    if k < 0:
        status, num_cells = cover(search, window, reach, limit)
        if status != FOUND:
            return status
    else:
        num_cells = -(-UNITS_NEEDED // search.units[k])
        cost = cheapest_slots(search, window, k, num_cells)
        if cost == np.inf or cost > limit:
            return NOT_FOUND
        scratch.cell_types[:num_cells] = k
    consider(search, reach, num_cells, window.quote)
    return FOUND
