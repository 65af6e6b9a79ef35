"""The aggregate `max`: the exact argmax of F (Zheng et al., ICPP 2024, eqs. 9 and 10).

A schedule costs
 c = q + sum(e) + lam_hat * sum(s) + phi_hat * sum(r)
with lam_hat, phi_hat the highest prices among its cells. Under fixed thresholds on both the rest is
additive over the cells within them, so c* is the least of a covering problem for each pair of
prices that occur. All pairs are gone through but those that cannot win: it is there for the paper's
rows, and slow where prices differ much.
"""

import numpy as np

from auctune.auction.search.covering import least_weight, search_weights
from auctune.auction.search.problem import (
    FOUND,
    NEED_MORE_LABELS,
    SLACK,
    Search,
    Thresholds,
    Window,
)
from auctune.numerics.arrays import Floats
from auctune.numerics.jit import kernel


@kernel
def search_thresholds(search: Search, window: Window) -> int:
    """Find the best schedule with the window's vendor; keep it if it is the best of all.

    Returns:
        FOUND, also where there is none, or NEED_MORE_LABELS.
    """
    entries, best, num_types = search.entries, search.best, len(search.units)
    first, last = window.first * num_types, window.last * num_types
    begin, end = entries.start[first], entries.start[last]
    place = np.empty(end - begin, dtype=np.int64)
    least_phi = np.full(last, np.inf)
    for at in range(first, last):
        for i in range(entries.start[at], entries.start[at + 1]):
            place[i - begin] = at
            least_phi[at] = entries.phi[i]
    lowest = np.min(least_phi)
    # The least phi of each slot and type at thresholds up to `lam`.
    reached = np.full(last, np.inf)
    order = np.argsort(entries.lam[begin:end], kind="mergesort")
    price = search.request.quote_price[window.quote]
    i = 0
    while i < len(order):
        lam = entries.lam[begin + order[i]]
        # A schedule whose dearest cell has this lam, or more, costs no less than this.
        _weigh(search, window, Thresholds(lam, lowest), least_phi, np.inf)
        if price + least_weight(search, window) > best.cost[0] * (1.0 + SLACK):
            break
        # New choices begin at the phi of a cell that comes within reach here, and end at what its
        # slot and type offered before: beyond that, the same cells were reached at a lower lam.
        low, high = np.inf, 0.0
        while i < len(order) and entries.lam[begin + order[i]] == lam:
            at, phi = place[order[i]], entries.phi[begin + order[i]]
            low, high = min(low, phi), max(high, reached[at])
            reached[at] = phi
            i += 1
        for phi in np.unique(reached):
            if low <= phi < high:
                reach = Thresholds(lam, phi)
                _weigh(search, window, reach, reached, phi)
                if search_weights(search, window, reach) == NEED_MORE_LABELS:
                    return NEED_MORE_LABELS
    return FOUND


@kernel
def _weigh(
    search: Search, window: Window, prices: Thresholds, phi_of: Floats, highest: float
) -> None:
    """Weight of a cell at these prices, e + lam * s + phi * r, if `phi_of` is `highest` at most."""
    request, weight, num_types = search.request, search.scratch.weight, len(search.units)
    for k in range(num_types):
        use = prices.lam * request.throughput[k] + prices.phi * request.memory_gb
        for j in range(window.first, window.last):
            at = j * num_types + k
            if phi_of[at] < np.inf and phi_of[at] <= highest:
                weight[at] = use + request.operating_cost[k, window.origin + j]
            else:
                weight[at] = np.inf
