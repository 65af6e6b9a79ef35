"""The aggregate `max`: a search over pairs of price thresholds, each a covering problem."""

import numpy as np

from auctune.auction.search.cells import consider
from auctune.auction.search.counts import counting_of, least_by_counts, write_counts
from auctune.auction.search.covering import cover
from auctune.auction.search.problem import (
    FOUND,
    NEED_MORE_LABELS,
    SLACK,
    UNITS_NEEDED,
    Search,
    Thresholds,
    Window,
)
from auctune.numerics.arrays import FIT, Floats, Ints
from auctune.numerics.jit import kernel

# Weights of cells, and the levels that thresholds may take.
#
# The least samples S and cells m of any schedule: with one type S = m * s exactly; with several, S
# >= M and m >= M / max s.


# Up to so many values, insertion is quicker than a sort that allocates.
FEW = 64


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
def least_use(search: Search) -> tuple[float, float]:
    """Return the least samples and the least number of cells of any schedule."""
    k = only_type(search.units)
    if k >= 0:
        m = float(-(-UNITS_NEEDED // search.units[k]))
        return m * search.request.throughput[k], m
    m = float(-(-UNITS_NEEDED // np.max(search.units)))
    return search.request.work * (1.0 - FIT), m


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
def weigh_max(search: Search, window: Window, reach: Thresholds) -> None:
    """Weight of a cell within the thresholds: e + lam * s + phi * r, at their prices."""
    request, scratch, num_types = search.request, search.scratch, len(search.units)
    phi_now, weight, operating = scratch.phi_now, scratch.weight, request.operating_cost
    for k in range(num_types):
        use = reach.lam * request.throughput[k] + reach.phi * request.memory_gb
        for j in range(window.first, window.last):
            at = j * num_types + k
            if phi_now[at] <= reach.phi:
                weight[at] = use + operating[k, window.origin + j]
            else:
                weight[at] = np.inf


@kernel
def price_floors(search: Search, window: Window) -> Thresholds:
    """Return the least lam and the least phi of any cell."""
    entries, start = search.entries, search.entries.start
    num_types = len(search.units)
    lam, phi = np.inf, np.inf
    for at in range(window.first * num_types, window.last * num_types):
        if start[at + 1] > start[at]:
            lam = min(lam, entries.lam[start[at]])
            phi = min(phi, entries.phi[start[at + 1] - 1])
    return Thresholds(lam, phi)


@kernel
def sort_levels(
    search: Search,
    window: Window,
    floors: Thresholds,
    spare: float,
    samples: float,
    memory: float,
) -> int:
    """List in `scratch.entry_order`, by rising lam, the entries that the best schedule may use.

    Args:
        floors: the least prices, at which the bound on the cost was made.
        spare: what a schedule may cost beyond that bound.
        samples, memory: the least that any schedule uses, in samples and GB-slots: it costs so
            much more for each unit by which its highest prices are above the least ones.

    Returns:
        Their number.
    """
    entries, scratch = search.entries, search.scratch
    start, num_types = entries.start, len(search.units)
    lams, phis = entries.lam, entries.phi
    entry_at, entry_order, levels = scratch.entry_at, scratch.entry_order, scratch.levels
    count = 0
    for at in range(window.first * num_types, window.last * num_types):
        for i in range(start[at], start[at + 1]):
            lam = lams[i]
            if (lam - floors.lam) * samples + (phis[i] - floors.phi) * memory <= spare:
                entry_at[i] = at
                entry_order[count] = i
                levels[count] = lam
                count += 1
    if count > FEW:
        order = np.argsort(levels[:count], kind="mergesort")
        for i in range(count):
            order[i] = entry_order[order[i]]
        entry_order[:count] = order
        return count
    for i in range(1, count):
        level, entry = levels[i], entry_order[i]
        place = i
        while place > 0 and levels[place - 1] > level:
            levels[place], entry_order[place] = levels[place - 1], entry_order[place - 1]
            place -= 1
        levels[place], entry_order[place] = level, entry
    return count


@kernel
def sort_phis(phi_now: Floats, first: int, last: int, low: float, high: float, out: Floats) -> int:
    """List the distinct values of phi_now[first:last] in [low, high) in `out`; count them."""
    count = 0
    for at in range(first, last):
        phi = phi_now[at]
        if not low <= phi < high:
            continue
        place = count
        while place > 0 and out[place - 1] > phi:
            place -= 1
        if place > 0 and out[place - 1] == phi:
            continue
        for i in range(count, place, -1):
            out[i] = out[i - 1]
        out[place] = phi
        count += 1
    return count


@kernel
def slot_reach(phi_now: Floats, units: Ints, j: int) -> int:
    """Return the most units that slot j can do with the cells reached so far."""
    most = np.int64(0)
    for k in range(len(units)):
        if phi_now[j * len(units) + k] < np.inf:
            most = max(most, units[k])
    return int(most)


# A good schedule to start from, so that bounds cut from the first level on.
#
# Cells are taken by their cost per unit of work, e + lam * s + phi * r over s, the cheapest of
# each slot, until they do the work. The highest prices among them are thresholds under which there
# is a schedule; it is rarely the best one, and often near it.


@kernel
def warm_start(search: Search, window: Window) -> Thresholds:
    """The dearest prices of a schedule that is cheap cell by cell; infinite if there is none."""
    entries, request, units = search.entries, search.request, search.units
    start, lams, phis = entries.start, entries.lam, entries.phi
    # The chosen cells by rising cost per unit: key, entry, and what it does.
    key, chosen, share = (
        search.scratch.heap_key,
        search.scratch.heap_slot,
        search.scratch.chosen_type,
    )
    num_types = len(units)
    size, done = 0, np.int64(0)
    for j in range(window.first, window.last):
        least, which, work = np.inf, -1, np.int64(0)
        for k in range(num_types):
            at = j * num_types + k
            for i in range(start[at], start[at + 1]):
                cost = (
                    request.operating_cost[k, window.origin + j]
                    + lams[i] * request.throughput[k]
                    + phis[i] * request.memory_gb
                ) / float(units[k])
                if cost < least:
                    least, which, work = cost, i, units[k]
        if which < 0 or (done >= UNITS_NEEDED and least >= key[size - 1]):
            continue
        place = size
        while place > 0 and key[place - 1] > least:
            key[place], chosen[place] = key[place - 1], chosen[place - 1]
            share[place] = share[place - 1]
            place -= 1
        key[place], chosen[place], share[place] = least, which, work
        size += 1
        done += work
        while done - share[size - 1] >= UNITS_NEEDED:
            size -= 1
            done -= share[size]
    if done < UNITS_NEEDED:
        return Thresholds(np.inf, np.inf)
    lam, phi = 0.0, 0.0
    for i in range(size):
        lam, phi = max(lam, lams[chosen[i]]), max(phi, phis[chosen[i]])
    return Thresholds(lam, phi)


@kernel
def reach_up_to(search: Search, window: Window, lam: float) -> None:
    """Set `phi_now` to the least phi of each type and slot among entries up to `lam`."""
    start, lams, phis = search.entries.start, search.entries.lam, search.entries.phi
    phi_now, num_types = search.scratch.phi_now, len(search.units)
    phi_now[: window.first * num_types] = np.inf
    for at in range(window.first * num_types, window.last * num_types):
        least = np.inf
        for i in range(start[at], start[at + 1]):
            if lams[i] > lam:
                break
            least = phis[i]
        phi_now[at] = least


# The exact argmax of F (Zheng et al., ICPP 2024, eqs. 9 and 10), which (13) does not find.
#
# With the aggregate `max` a schedule costs
#  c = q + sum(e) + lam_hat * sum(s) + phi_hat * sum(r)
# with lam_hat, phi_hat the highest prices among its cells. For fixed thresholds the rest is
# additive over the cells within them, so c* is a minimum over pairs of thresholds of a covering
# problem. Only pairs count at which some cell comes within reach, and of these only those whose
# bound is not past the best.
#
# Levels of lam rise. The cells at a level open new choices only for phi from their own up to what
# their slot and type offered before: beyond that, the same cells were reached at a lower lam.


@kernel
def floor_of_max(search: Search, window: Window) -> float:
    """Return a lower bound on the cost of any schedule in the window, its vendor not counted."""
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
        start = warm_start(search, window)
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
