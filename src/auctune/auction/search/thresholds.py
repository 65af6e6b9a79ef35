"""The exact argmax of F (Zheng et al., ICPP 2024, eqs. 9 and 10), which (13) does not find.

With the aggregate `max` a schedule costs
 c = q + sum(e) + lam_hat * sum(s) + phi_hat * sum(r)
with lam_hat, phi_hat the highest prices among its cells. For fixed thresholds the rest is additive
over the cells within them, so c* is a minimum over pairs of thresholds of a covering problem. Only
pairs count at which some cell comes within reach, and of these only those whose bound is not past
the best.

Levels of lam rise. The cells at a level open new choices only for phi from their own up to what
their slot and type offered before: beyond that, the same cells were reached at a lower lam.
"""

import numpy as np

from auctune.auction.search.choose import consider
from auctune.auction.search.counts import counting_of, least_by_counts, write_counts
from auctune.auction.search.cover import cover
from auctune.auction.search.levels import (
    least_use,
    only_type,
    price_floors,
    slot_reach,
    sort_levels,
    sort_phis,
    weigh_max,
)
from auctune.auction.search.problem import (
    FOUND,
    NEED_MORE_LABELS,
    SLACK,
    UNITS_NEEDED,
    Search,
    Thresholds,
    Window,
)
from auctune.auction.search.start import cheap_thresholds, reach_up_to
from auctune.numerics.jit import kernel


@kernel
def floor_of_max(search: Search, window: Window) -> float:
    """A lower bound on the cost of any schedule in the window, its vendor not counted."""
    floors = price_floors(search, window)
    reach_up_to(search, window, np.inf)
    return least_by_counts(counting_of(search, window), floors.lam, np.inf, floors.phi)[0]


@kernel
def search_max(search: Search, window: Window, floor: float) -> int:
    """Find the best schedule with the window's vendor; keep it if it is the best of all.

    Args:
        floor: of the window.
    """
    entries, scratch, best = search.entries, search.scratch, search.best
    phi_now, units, lams = scratch.phi_now, search.units, search.entries.lam
    entry_order, entry_at, phis = scratch.entry_order, scratch.entry_at, scratch.levels
    num_types, needed = len(units), UNITS_NEEDED
    price = search.request.quote_price[window.quote]
    floors = price_floors(search, window)
    counting = counting_of(search, window)
    samples, num_cells = least_use(search)
    per_phi = num_cells * search.request.memory_gb
    # With one type, bounds are too cheap for a start to pay.
    if best.cost[0] == np.inf and only_type(units) < 0:
        start = cheap_thresholds(search, window)
        reach_up_to(search, window, start.lam)
        least, second = least_by_counts(counting, start.lam, start.phi, start.phi)
        only = second > least * (1.0 + SLACK)
        if least < np.inf and _search_cells(search, window, start, only) == NEED_MORE_LABELS:
            return NEED_MORE_LABELS
    spare = best.cost[0] * (1.0 + SLACK) - price - floor
    num_entries = sort_levels(search, window, floors, spare, samples, per_phi)
    phi_now[: window.last * num_types] = np.inf
    reached = np.int64(0)
    i = 0
    while i < num_entries:
        lam = lams[entry_order[i]]
        level_floor = price + floor + (lam - floors.lam) * samples
        if level_floor > best.cost[0] * (1.0 + SLACK):
            break
        low, high = np.inf, 0.0
        while i < num_entries and lams[entry_order[i]] == lam:
            entry = entry_order[i]
            at = entry_at[entry]
            low, high = min(low, entries.phi[entry]), max(high, phi_now[at])
            reached -= slot_reach(phi_now, units, at // num_types)
            phi_now[at] = entries.phi[entry]
            reached += slot_reach(phi_now, units, at // num_types)
            i += 1
        if reached < needed:
            continue
        if level_floor + (low - floors.phi) * per_phi > best.cost[0] * (1.0 + SLACK):
            continue
        num_phis = sort_phis(
            phi_now, window.first * num_types, window.last * num_types, low, high, phis
        )
        bound = level_floor + (low - floors.phi) * per_phi
        if num_phis > 2:
            # One more bound, for all of them, may save the rest.
            bound = price + least_by_counts(counting, lam, np.inf, low)[0]
        for phi in phis[:num_phis]:
            if bound + (phi - low) * per_phi > best.cost[0] * (1.0 + SLACK):
                break
            least, second = least_by_counts(counting, lam, phi, phi)
            if least == np.inf or price + least > best.cost[0] * (1.0 + SLACK):
                continue
            only = second > least * (1.0 + SLACK)
            if _search_cells(search, window, Thresholds(lam, phi), only) == NEED_MORE_LABELS:
                return NEED_MORE_LABELS
    return FOUND


@kernel
def _search_cells(search: Search, window: Window, reach: Thresholds, only: bool) -> int:
    """Find the best schedule under the thresholds; keep it if it is the best of all.

    Args:
        only: no counts but the best ones cost as little.
    """
    num_cells = write_counts(search, window, reach.phi)
    if num_cells > 0:
        consider(search, reach, num_cells, window.quote)
        if only:
            return FOUND
    # Two types want one slot, or other counts cost the same and may come first.
    weigh_max(search, window, reach)
    price = search.request.quote_price[window.quote]
    limit = search.best.cost[0] * (1.0 + SLACK) - price
    status, num_cells = cover(search, window, reach, limit)
    if status == FOUND:
        consider(search, reach, num_cells, window.quote)
    return status
