"""A good schedule to start from, so that bounds cut from the first level on.

Cells are taken by their cost per unit of work, e + lam * s + phi * r over s, the cheapest of each
slot, until they do the work. The highest prices among them are thresholds under which there is a
schedule; it is rarely the best one, and often near it.
"""

import numpy as np

from auctune.auction.search.problem import UNITS_NEEDED, Search, Thresholds, Window
from auctune.numerics.jit import kernel


@kernel
def cheap_thresholds(search: Search, window: Window) -> Thresholds:
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
