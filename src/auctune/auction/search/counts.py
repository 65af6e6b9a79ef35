"""The least cost by numbers of cells, for the aggregate `max`: exact but for shared slots.

Under thresholds (lam, phi) all cells of a type cost the same but for their operating cost. So a
schedule with n_k cells of type k costs at least
 sum_k (the n_k least operating costs of type k) + lam * sum_k n_k s_k + phi * r * sum_k n_k,
and just that if no slot is wanted by two types. With one type that is always so. The least of it
over all counts that do the work bounds every schedule, and closes the integrality gap that a
linear bound leaves. Slots are sorted by operating cost once, so each type takes about n_k steps.

Among equal operating costs each type takes its earliest slots. So where no slot is wanted twice
and no other counts cost as little, what is found also comes first in the tie order: any other
choice of the same counts has no slot earlier.
"""

from typing import NamedTuple

import numpy as np

from auctune.auction.search.problem import UNITS_NEEDED, Search, Window
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel

# Two types have about as many counts as a schedule has cells; with many types they multiply.
MAX_CHOICES = 4096


@kernel
def sort_slots(search: Search, window: Window) -> None:
    """List the window's slots of each type by rising operating cost, and by time among equals."""
    request, scratch = search.request, search.scratch
    start = search.entries.start
    num_types = len(search.units)
    for k in range(num_types):
        count = 0
        for t in request.slots_by_cost[k]:
            j = t - window.origin
            at = j * num_types + k
            if window.first <= j < window.last and start[at + 1] > start[at]:
                scratch.by_cost[k, count] = j
                count += 1
        scratch.num_by_cost[k] = count


class Counting(NamedTuple):
    """What the bound reads and writes; few arrays, as it is asked for many times a task."""

    units: Ints  # [K]
    throughput: Floats  # [K]
    memory_gb: float
    operating_cost: Floats  # [K, T]
    origin: int  # slot of j = 0
    by_cost: Ints  # [K, W]
    num_by_cost: Ints  # [K]
    phi_now: Floats  # [W * K]
    prefix: Floats  # [K, W + 1] left with the sums of the least operating costs
    counts: Ints  # [3, K] left with the best counts, and how many cells each type has


@kernel
def counting_of(search: Search, window: Window) -> Counting:
    """Return the parts of a search that the bound needs."""
    request, scratch = search.request, search.scratch
    return Counting(
        search.units,
        request.throughput,
        request.memory_gb,
        request.operating_cost,
        window.origin,
        scratch.by_cost,
        scratch.num_by_cost,
        scratch.phi_now,
        scratch.prefix,
        scratch.counts,
    )


@kernel
def least_by_counts(
    counting: Counting, lam: float, phi: float, phi_paid: float
) -> tuple[float, float]:
    """Return the bound over all counts, with cells of phi_now <= phi in reach.

    Args:
        phi_paid: the price charged for memory, phi or less.

    Returns:
        The least cost, and the least one with other counts; money without the vendor's price,
        infinite if there are too few cells.
    """
    units, counts, prefix = counting.units, counting.counts, counting.prefix
    num_types = len(units)
    for k in range(num_types):
        counts[1, k] = _fill_prefix(counting, k, phi) if units[k] > 0 else 0
    if num_types == 1:
        n = -(-UNITS_NEEDED // units[0])
        counts[0, 0] = n
        if n > counts[1, 0]:
            return np.inf, np.inf
        use = lam * counting.throughput[0] + phi_paid * counting.memory_gb
        return prefix[0, n] + n * use, np.inf
    num_choices = 1
    for k in range(num_types - 1):
        num_choices *= counts[1, k] + 1
    if num_choices > MAX_CHOICES:
        return _least_per_unit(counting, lam, phi_paid)
    return _least_of_all(counting, lam, phi_paid)


@kernel
def _least_of_all(counting: Counting, lam: float, phi_paid: float) -> tuple[float, float]:
    """Go over all counts: those of all types but the last run like an odometer, and the last
    type does what is left."""
    units, counts, prefix = counting.units, counting.counts, counting.prefix
    throughput, memory_gb = counting.throughput, counting.memory_gb
    least, second = np.inf, np.inf
    last = len(units) - 1
    n = counts[2]
    n[:] = 0
    while True:
        done = 0
        cost = 0.0
        for k in range(last):
            done += n[k] * units[k]
            cost += prefix[k, n[k]] + n[k] * (lam * throughput[k] + phi_paid * memory_gb)
        missing = UNITS_NEEDED - done
        n[last] = 0
        if missing > 0:
            n[last] = -(-missing // units[last]) if units[last] > 0 else counts[1, last] + 1
        if n[last] <= counts[1, last]:
            if n[last] > 0:
                cost += prefix[last, n[last]]
                cost += n[last] * (lam * throughput[last] + phi_paid * memory_gb)
            if cost < least:
                least, second = cost, least
                counts[0, :] = n
            elif cost < second:
                second = cost
        k = 0
        # One more cell of a type than does all the work alone is never better.
        while k < last and (n[k] >= counts[1, k] or (k == 0 and missing <= 0)):
            n[k] = 0
            k += 1
        if k == last:
            return least, second
        n[k] += 1


@kernel
def _least_per_unit(counting: Counting, lam: float, phi_paid: float) -> tuple[float, float]:
    """Return a weaker bound, for many types: all the work at the least cost of a unit of work."""
    units, counts = counting.units, counting.counts
    least, reach = np.inf, 0
    counts[0, :] = 0
    for k in range(len(units)):
        if counts[1, k] > 0:
            use = lam * counting.throughput[k] + phi_paid * counting.memory_gb
            cost = counting.prefix[k, 1] + use
            least = min(least, cost / float(units[k]))
            reach += counts[1, k] * units[k]
    if reach < UNITS_NEEDED:
        return np.inf, np.inf
    # No counts come with it, so nothing says that no others cost the same.
    return least * float(UNITS_NEEDED), least * float(UNITS_NEEDED)


@kernel
def _fill_prefix(counting: Counting, k: int, phi: float) -> int:
    """Sum up the least operating costs of type k in reach, as many as do all the work alone."""
    num_types = len(counting.units)
    slots, phi_now, prefix = counting.by_cost[k], counting.phi_now, counting.prefix[k]
    cost, origin = counting.operating_cost[k], counting.origin
    most = -(-UNITS_NEEDED // counting.units[k])
    count = 0
    prefix[0] = 0.0
    for i in range(counting.num_by_cost[k]):
        j = slots[i]
        if phi_now[j * num_types + k] <= phi:
            prefix[count + 1] = prefix[count] + cost[origin + j]
            count += 1
            if count == most:
                break
    return count


@kernel
def write_counts(search: Search, window: Window, phi: float) -> int:
    """Write the cells of the best counts to scratch.cell_slots and cell_types, by slot.

    Returns:
        Their number; 0 if two types want one slot.
    """
    scratch, num_types = search.scratch, len(search.units)
    chosen = scratch.chosen_type
    chosen[window.first : window.last] = -1
    for k in range(num_types):
        left = scratch.counts[0, k]
        for i in range(scratch.num_by_cost[k]):
            if left == 0:
                break
            j = scratch.by_cost[k, i]
            if scratch.phi_now[j * num_types + k] <= phi:
                if chosen[j] >= 0:
                    return 0
                chosen[j] = k
                left -= 1
    num_cells = 0
    for j in range(window.first, window.last):
        if chosen[j] >= 0:
            scratch.cell_slots[num_cells] = window.origin + j
            scratch.cell_types[num_cells] = chosen[j]
            num_cells += 1
    return num_cells
