"""Weights of cells, and the levels that thresholds may take.

The least samples S and cells m of any schedule: with one type S = m * s exactly; with several,
S >= M and m >= M / max s.
"""

import numpy as np

from auctune.auction.book import Floats, Ints
from auctune.auction.search.problem import UNITS_NEEDED, Search, Thresholds, Window
from auctune.auction.tolerance import FIT
from auctune.numerics.jit import kernel

# Up to so many values, insertion is quicker than a sort that allocates.
FEW = 64


@kernel
def only_type(units: Ints) -> int:
    """The one type that can run the task; -1 if there are several."""
    found = -1
    for k in range(len(units)):
        if units[k] > 0:
            if found >= 0:
                return -1
            found = k
    return found


@kernel
def least_use(search: Search) -> tuple[float, float]:
    """The least samples and the least number of cells of any schedule."""
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
    """The least lam and the least phi of any cell."""
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
    """The most units that slot j can do with the cells reached so far."""
    most = np.int64(0)
    for k in range(len(units)):
        if phi_now[j * len(units) + k] < np.inf:
            most = max(most, units[k])
    return int(most)
