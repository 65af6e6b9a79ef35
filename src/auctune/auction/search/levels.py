"""Weights of cells under thresholds, the levels that thresholds may take, and bounds on them.

The least samples S and cells m of any schedule: with one type S = m * s exactly; with several,
S >= M and m >= M / max s.
"""

import numpy as np

from auctune.auction.search.dual import dual_price
from auctune.auction.search.one_type import cheapest_slots
from auctune.auction.search.problem import Request, Search, Window
from auctune.auction.tolerance import FIT
from auctune.numerics.jit import kernel


@kernel
def only_type(request: Request) -> int:
    """The one type that can run the task; -1 if there are several."""
    found = -1
    for k in range(len(request.units)):
        if request.units[k] > 0:
            if found >= 0:
                return -1
            found = k
    return found


@kernel
def cells_needed(request: Request, k: int) -> int:
    """Cells of type k that do all the work."""
    return int(-(-request.units_needed // request.units[k]))


@kernel
def least_use(request: Request) -> tuple[float, float]:
    """The least samples and the least number of cells of any schedule."""
    k = only_type(request)
    if k >= 0:
        m = float(cells_needed(request, k))
        return m * request.throughput[k], m
    m = float(-(-request.units_needed // np.max(request.units)))
    return request.work * (1.0 - FIT), m


@kernel
def least_weight(search: Search, window: Window) -> float:
    """A lower bound on the weight of any schedule; infinite if there is none."""
    k = only_type(search.request)
    if k >= 0:
        return cheapest_slots(search, window, k, cells_needed(search.request, k))
    return dual_price(search.request, search.scratch, window.first, window.last)[1]


@kernel
def weigh_operating(search: Search, window: Window) -> None:
    """Weight of a cell: its operating cost alone."""
    entries, num_types = search.entries, len(search.request.units)
    for j in range(window.first, window.last):
        for k in range(num_types):
            at = j * num_types + k
            if entries.start[at + 1] > entries.start[at]:
                search.scratch.weight[at] = search.request.operating_cost[k, window.origin + j]
            else:
                search.scratch.weight[at] = np.inf


@kernel
def weigh_sum(search: Search, window: Window) -> None:
    """Weight of a cell: e + lam * s + phi * r, of the cheapest one of its type and slot."""
    entries, request, num_types = search.entries, search.request, len(search.request.units)
    for j in range(window.first, window.last):
        for k in range(num_types):
            at = j * num_types + k
            least = np.inf
            for i in range(entries.start[at], entries.start[at + 1]):
                price = entries.lam[i] * request.throughput[k] + entries.phi[i] * request.memory_gb
                least = min(least, price)
            search.scratch.weight[at] = least + request.operating_cost[k, window.origin + j]


@kernel
def weigh_max(search: Search, window: Window, lam: float, phi: float) -> None:
    """Weight of a cell within the thresholds: e + lam * s + phi * r at the thresholds' prices."""
    request, scratch, num_types = search.request, search.scratch, len(search.request.units)
    for k in range(num_types):
        use = lam * request.throughput[k] + phi * request.memory_gb
        for j in range(window.first, window.last):
            at = j * num_types + k
            if scratch.phi_now[at] <= phi:
                scratch.weight[at] = use + request.operating_cost[k, window.origin + j]
            else:
                scratch.weight[at] = np.inf


@kernel
def price_floors(search: Search, window: Window) -> tuple[float, float]:
    """The least lam and the least phi of any cell."""
    entries, num_types = search.entries, len(search.request.units)
    lam, phi = np.inf, np.inf
    for at in range(window.first * num_types, window.last * num_types):
        if entries.start[at + 1] > entries.start[at]:
            lam = min(lam, entries.lam[entries.start[at]])
            phi = min(phi, entries.phi[entries.start[at + 1] - 1])
    return lam, phi


@kernel
def sort_levels(search: Search, window: Window, highest: float) -> int:
    """List the entries with lam <= `highest` in `scratch.entry_order` by rising lam; count them."""
    entries, scratch = search.entries, search.scratch
    num_types = len(search.request.units)
    count = 0
    for at in range(window.first * num_types, window.last * num_types):
        for i in range(entries.start[at], entries.start[at + 1]):
            scratch.entry_at[i] = at
            if entries.lam[i] <= highest:
                scratch.entry_order[count] = i
                scratch.levels[count] = entries.lam[i]
                count += 1
    order = np.argsort(scratch.levels[:count], kind="mergesort")
    for i in range(count):
        order[i] = scratch.entry_order[order[i]]
    scratch.entry_order[:count] = order
    return count


@kernel
def sort_phis(search: Search, window: Window, low: float, high: float) -> int:
    """List the distinct phi of reachable cells in [low, high) in `scratch.levels`; count them."""
    scratch, num_types = search.scratch, len(search.request.units)
    count = 0
    for at in range(window.first * num_types, window.last * num_types):
        if low <= scratch.phi_now[at] < high:
            scratch.levels[count] = scratch.phi_now[at]
            count += 1
    scratch.levels[:count] = np.sort(scratch.levels[:count])
    distinct = 0
    for i in range(count):
        if i == 0 or scratch.levels[i] != scratch.levels[distinct - 1]:
            scratch.levels[distinct] = scratch.levels[i]
            distinct += 1
    return distinct


@kernel
def slot_reach(search: Search, j: int) -> int:
    """The most units that slot j can do with the cells reached so far."""
    num_types = len(search.request.units)
    most = np.int64(0)
    for k in range(num_types):
        if search.scratch.phi_now[j * num_types + k] < np.inf:
            most = max(most, search.request.units[k])
    return int(most)
