"""The cells that a search may choose among: undominated prices where there is room.

Kernels that run once a cell take scalars and single arrays: passing the whole search by value
costs more than what they do.
"""

import numpy as np

from auctune.auction.ledger import Capacity
from auctune.auction.search.problem import Cells, Entries, Request, Rule, Thresholds
from auctune.numerics.arrays import FIT, TIE, Floats
from auctune.numerics.jit import kernel


@kernel
def fits(used: float, more: float, capacity: float) -> bool:
    """Return whether `more` can be had beside what is used."""
    return bool(used + more <= capacity * (1.0 + FIT))


@kernel
def use_of(used: float, masked: bool) -> float:
    """Return the use that counts: what is sold if masked, else that of lost nodes alone."""
    return used if masked or used == np.inf else 0.0


@kernel
def gather(cells: Cells, rule: Rule, request: Request, first: int, entries: Entries) -> None:
    """Fill `entries` for the slots first..deadline.

    A cell dominated in both prices by another with room in the same slot and of the same type is
    never needed for the least cost. It may be for the tie order, which looks at all nodes again.
    """
    capacity, usage = cells.capacity, cells.usage
    num_types = len(capacity.compute)
    start, lam, phi = entries.start, entries.lam, entries.phi
    memory_gb = request.memory_gb
    count = 0
    start[0] = 0
    for t in range(first, request.last + 1):
        for k in range(num_types):
            base = count
            samples = request.throughput[k]
            group = capacity.first_of[k]
            end = group + usage.num_candidates[t, k] if samples > 0.0 else group
            for i in range(group, end):
                n = usage.candidates[t, i]
                used_compute = use_of(usage.compute[t, n], rule.masked)
                used_memory = use_of(usage.memory[t, n], rule.masked)
                has_room = fits(used_compute, samples, capacity.compute[k]) and fits(
                    used_memory, memory_gb, capacity.memory[k]
                )
                if has_room:
                    # A task without memory pays no phi: all its levels are one.
                    level = cells.phi[t, n] if memory_gb > 0.0 else 0.0
                    count = _insert(lam, phi, base, count, cells.lam[t, n], level)
            start[(t - first) * num_types + k + 1] = count


@kernel
def _insert(lams: Floats, phis: Floats, base: int, count: int, lam: float, phi: float) -> int:
    """Put (lam, phi) among the undominated ones in [base, count); the new count."""
    place = count
    while place > base and lams[place - 1] > lam:
        place -= 1
    if place > base and phis[place - 1] <= phi:
        return count
    if place > base and lams[place - 1] == lam:
        place -= 1
    end = place
    while end < count and phis[end] >= phi:
        end += 1
    if end == place:
        for j in range(count, place, -1):
            lams[j] = lams[j - 1]
            phis[j] = phis[j - 1]
    else:
        for j in range(end, count):
            lams[place + 1 + j - end] = lams[j]
            phis[place + 1 + j - end] = phis[j]
    lams[place] = lam
    phis[place] = phi
    return count + 1 - (end - place)


@kernel
def could_ever_run(capacity: Capacity, request: Request) -> bool:
    """Return whether an empty market could run the task with the quickest vendor."""
    most = 0.0
    for k in range(len(capacity.compute)):
        has_nodes = capacity.first_of[k + 1] > capacity.first_of[k]
        if (
            has_nodes
            and fits(0.0, request.throughput[k], capacity.compute[k])
            and fits(0.0, request.memory_gb, capacity.memory[k])
        ):
            most = max(most, request.throughput[k])
    slots = request.last + 1 - request.first - np.min(request.quote_delay)
    return bool(slots > 0 and slots * most >= request.work * (1.0 - FIT))


@kernel
def lowest_node(
    cells: Cells, rule: Rule, request: Request, reach: Thresholds, t: int, k: int
) -> int:
    """Return the first node of type k that costs least in slot t, under the thresholds.

    With `max`, all nodes within the thresholds cost the same, dominated ones too, and those beyond
    them by rounding.
    """
    capacity, usage = cells.capacity, cells.usage
    samples, memory_gb = request.throughput[k], request.memory_gb
    least, which = np.inf, -1
    for i in range(capacity.first_of[k], capacity.first_of[k + 1]):
        n = capacity.nodes_of[i]
        lam = cells.lam[t, n]
        phi = cells.phi[t, n] if memory_gb > 0.0 else 0.0
        if lam > reach.lam * (1.0 + TIE) or phi > reach.phi * (1.0 + TIE):
            continue
        price = lam * samples + phi * memory_gb
        if price * (1.0 + TIE) >= least:
            continue
        used_compute = use_of(usage.compute[t, n], rule.masked)
        used_memory = use_of(usage.memory[t, n], rule.masked)
        if fits(used_compute, samples, capacity.compute[k]) and fits(
            used_memory, memory_gb, capacity.memory[k]
        ):
            least, which = price, n
            if rule.by_max:
                break
    return int(which)
