"""The cells that a search may choose among: undominated prices where there is room."""

import numpy as np

from auctune.auction.book import Capacity
from auctune.auction.search.problem import Cells, Entries, Request, Rule
from auctune.auction.tolerance import FIT
from auctune.numerics.jit import kernel


@kernel
def fits(cells: Cells, rule: Rule, request: Request, t: int, n: int, k: int) -> bool:
    """Whether the cell has room for the task; if not masked, whether an empty one would."""
    capacity, usage = cells.capacity, cells.usage
    compute = request.throughput[k]
    memory = request.memory_gb
    if compute <= 0.0:
        return False
    if rule.masked:
        compute += usage.compute[t, n]
        memory += usage.memory[t, n]
    return bool(
        compute <= capacity.compute[k] * (1.0 + FIT) and memory <= capacity.memory[k] * (1.0 + FIT)
    )


@kernel
def gather(cells: Cells, rule: Rule, request: Request, first: int, entries: Entries) -> None:
    """Fill `entries` for the slots first..deadline.

    A cell dominated in both prices by another with room in the same slot and of the same type is
    never needed for the least cost. It may be for the tie order, which looks at all nodes again.
    """
    capacity, usage = cells.capacity, cells.usage
    num_types = len(capacity.compute)
    count = 0
    entries.start[0] = 0
    for t in range(first, request.last + 1):
        for k in range(num_types):
            base = count
            group = capacity.first_of[k]
            for i in range(group, group + usage.num_candidates[t, k]):
                n = usage.candidates[t, i]
                if fits(cells, rule, request, t, n, k):
                    # A task without memory pays no phi: all its levels are one.
                    phi = cells.phi[t, n] if request.memory_gb > 0.0 else 0.0
                    count = _insert(entries, base, count, cells.lam[t, n], phi)
            entries.start[(t - first) * num_types + k + 1] = count


@kernel
def _insert(entries: Entries, base: int, count: int, lam: float, phi: float) -> int:
    """Put (lam, phi) among the undominated ones in [base, count); the new count."""
    place = count
    while place > base and entries.lam[place - 1] > lam:
        place -= 1
    if place > base and entries.phi[place - 1] <= phi:
        return count
    if place > base and entries.lam[place - 1] == lam:
        place -= 1
    end = place
    while end < count and entries.phi[end] >= phi:
        end += 1
    if end == place:
        for j in range(count, place, -1):
            entries.lam[j] = entries.lam[j - 1]
            entries.phi[j] = entries.phi[j - 1]
    else:
        for j in range(end, count):
            entries.lam[place + 1 + j - end] = entries.lam[j]
            entries.phi[place + 1 + j - end] = entries.phi[j]
    entries.lam[place] = lam
    entries.phi[place] = phi
    return count + 1 - (end - place)


@kernel
def could_ever_run(capacity: Capacity, request: Request) -> bool:
    """Whether an empty market could run the task with the quickest vendor."""
    most = np.int64(0)
    for k in range(len(capacity.compute)):
        fits_empty = (
            request.throughput[k] > 0.0
            and capacity.first_of[k + 1] > capacity.first_of[k]
            and request.throughput[k] <= capacity.compute[k] * (1.0 + FIT)
            and request.memory_gb <= capacity.memory[k] * (1.0 + FIT)
        )
        if fits_empty:
            most = max(most, request.units[k])
    slots = request.last + 1 - request.first - np.min(request.quote_delay)
    return bool(most > 0 and slots > 0 and slots * most >= request.units_needed)
