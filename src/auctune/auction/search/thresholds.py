"""The exact argmax of F (Zheng et al., ICPP 2024, eqs. 9 and 10), which (13) does not find.

With the aggregate `max` a schedule costs
 c = q + sum(e) + lam_hat * sum(s) + phi_hat * sum(r)
with lam_hat, phi_hat the highest prices among its cells. For fixed thresholds the rest is additive
over the cells within them, so c* is a minimum over pairs of thresholds of a covering problem. Only
pairs count at which some cell comes within reach, and of these only those whose
 q + E + lam_hat * S + phi_hat * m * r
(E, S, m: the least operating cost, samples and cells of any schedule) is not past the best.

Levels of lam rise. The cells at a level open new choices only for phi from their own up to what
their slot and type offered before: beyond that, the same cells were reached at a lower lam.

With `sum` the cost is additive as it is: one covering problem.
"""

import numpy as np

from auctune.auction.search.choose import consider
from auctune.auction.search.cover import cover
from auctune.auction.search.levels import (
    cells_needed,
    least_use,
    least_weight,
    only_type,
    price_floors,
    slot_reach,
    sort_levels,
    sort_phis,
    weigh_max,
    weigh_operating,
    weigh_sum,
)
from auctune.auction.search.one_type import cheapest_slots
from auctune.auction.search.problem import (
    FOUND,
    MAX,
    NEED_MORE_LABELS,
    NOT_FOUND,
    Search,
    Thresholds,
    Window,
)
from auctune.numerics.jit import kernel

# Bounds cut with more slack than ties have, so that no tie is cut.
SLACK = 1e-10


@kernel
def find_best(search: Search) -> int:
    """Leave the best schedule over all vendors in `search.best`; the entries are gathered.

    Returns:
        FOUND, NOT_FOUND, or NEED_MORE_LABELS: then nothing was decided; try with a larger pool.
    """
    request, best = search.request, search.best
    best.cost[0] = np.inf
    origin = int(request.first + np.min(request.quote_delay))
    last = request.last + 1 - origin
    if last <= 0:
        return NOT_FOUND
    floor = _cost_floor(search, Window(origin, 0, last, 0))
    if floor == np.inf:
        return NOT_FOUND
    searched_price, searched_delay = -1.0, np.int64(0)
    # By rising price, and in file order among equals: a dearer vendor that is no quicker than one
    # searched before cannot win.
    for quote in np.argsort(request.quote_price, kind="mergesort"):
        price, delay = request.quote_price[quote], request.quote_delay[quote]
        if price + floor > best.cost[0] * (1.0 + SLACK):
            break
        if searched_price >= 0.0 and price > searched_price and delay >= searched_delay:
            continue
        if searched_price < 0.0 or delay < searched_delay:
            searched_price, searched_delay = price, delay
        window = Window(origin, int(request.first + delay - origin), last, int(quote))
        if window.first < last and _search_window(search, window) == NEED_MORE_LABELS:
            return NEED_MORE_LABELS
    return FOUND if best.cost[0] < np.inf else NOT_FOUND


@kernel
def _cost_floor(search: Search, window: Window) -> float:
    """A lower bound on the cost of any schedule in the window, vendors not counted."""
    if search.rule.aggregate != MAX:
        weigh_sum(search, window)
        return float(least_weight(search, window))
    weigh_operating(search, window)
    operating = least_weight(search, window)
    samples, num_cells = least_use(search.request)
    lam, phi = price_floors(search, window)
    return float(operating + lam * samples + phi * num_cells * search.request.memory_gb)


@kernel
def _search_window(search: Search, window: Window) -> int:
    if search.rule.aggregate == MAX:
        return _search_levels(search, window)
    weigh_sum(search, window)
    return _evaluate(search, window, Thresholds(np.inf, np.inf))


@kernel
def _search_levels(search: Search, window: Window) -> int:
    entries, scratch, best = search.entries, search.scratch, search.best
    num_types = len(search.request.units)
    weigh_operating(search, window)
    operating = least_weight(search, window)
    if operating == np.inf:
        return NOT_FOUND
    samples, num_cells = least_use(search.request)
    memory = num_cells * search.request.memory_gb
    phi_floor = price_floors(search, window)[1]
    fixed = search.request.quote_price[window.quote] + operating
    highest = (best.cost[0] * (1.0 + SLACK) - fixed - phi_floor * memory) / samples
    num_entries = sort_levels(search, window, highest)
    scratch.phi_now[window.first * num_types : window.last * num_types] = np.inf
    units = np.int64(0)
    i = 0
    while i < num_entries:
        lam = entries.lam[scratch.entry_order[i]]
        if fixed + lam * samples + phi_floor * memory > best.cost[0] * (1.0 + SLACK):
            break
        low, high = np.inf, 0.0
        while i < num_entries and entries.lam[scratch.entry_order[i]] == lam:
            entry = scratch.entry_order[i]
            at = scratch.entry_at[entry]
            low = min(low, entries.phi[entry])
            high = max(high, scratch.phi_now[at])
            units -= slot_reach(search, at // num_types)
            scratch.phi_now[at] = entries.phi[entry]
            units += slot_reach(search, at // num_types)
            i += 1
        if units < search.request.units_needed:
            continue
        if _search_phis(search, window, lam, low, high, fixed + lam * samples) == NEED_MORE_LABELS:
            return NEED_MORE_LABELS
    return FOUND


@kernel
def _search_phis(
    search: Search, window: Window, lam: float, low: float, high: float, floor: float
) -> int:
    """Try the thresholds (lam, phi) for each phi in [low, high) that may still be best."""
    scratch, best = search.scratch, search.best
    memory = least_use(search.request)[1] * search.request.memory_gb
    if floor + low * memory > best.cost[0] * (1.0 + SLACK):
        return FOUND
    for p in range(sort_phis(search, window, low, high)):
        phi = scratch.levels[p]
        if floor + phi * memory > best.cost[0] * (1.0 + SLACK):
            break
        weigh_max(search, window, lam, phi)
        if _evaluate(search, window, Thresholds(lam, phi)) == NEED_MORE_LABELS:
            return NEED_MORE_LABELS
    return FOUND


@kernel
def _evaluate(search: Search, window: Window, reach: Thresholds) -> int:
    """Find the best schedule for the weights in `scratch`; keep it if it is the best of all."""
    request, best = search.request, search.best
    limit = best.cost[0] * (1.0 + SLACK) - request.quote_price[window.quote]
    k = only_type(request)
    if k >= 0:
        m = cells_needed(request, k)
        weight = cheapest_slots(search, window, k, m)
        if weight == np.inf or weight > limit:
            return NOT_FOUND
        _write_cells(search, window, k, m)
        consider(search, reach, m, window.quote)
        return FOUND
    status, num_cells = cover(search, window, reach, limit)
    if status == FOUND:
        consider(search, reach, num_cells, window.quote)
    return status


@kernel
def _write_cells(search: Search, window: Window, k: int, m: int) -> None:
    scratch = search.scratch
    slots = np.sort(scratch.heap_slot[:m])
    for i in range(m):
        scratch.cell_slots[i] = window.origin + slots[i]
        scratch.cell_types[i] = k
