"""Which cells a search may choose, at which nodes, and the total order among schedules."""

import numpy as np

from auctune.auction.ledger import Capacity
from auctune.auction.search.problem import (
    Best,
    Cells,
    Entries,
    Request,
    Rule,
    Search,
    Thresholds,
)
from auctune.numerics.arrays import FIT, TIE, Floats, Ints
from auctune.numerics.jit import kernel

# The cells that a search may choose among: undominated prices where there is room.
#
# Kernels that run once a cell take scalars and single arrays: passing the whole search by value
# costs more than what they do.


@kernel
def fits(used: float, more: float, capacity: float) -> bool:
    """Return whether `more` can be had beside what is used."""
    return bool(used + more <= capacity * (1.0 + FIT))


@kernel
def counted(used: float, masked: bool) -> float:
    """Return the use of a cell that a search counts: only a lost node's is never overlooked."""
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
                used_compute = counted(usage.compute[t, n], rule.masked)
                used_memory = counted(usage.memory[t, n], rule.masked)
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


# From slots and types to nodes, and the total order among schedules.
#
# The order: least cost, earlier finish, fewer cells, first quote, then the lexicographic list of
# (slot, node index). Costs that differ by rounding only tie (numerics.arrays.TIE).
#
# The cost of a schedule, the same sum for every caller, in slot order:
#  c = q + sum(e) + lam_hat * sum(s) + phi_hat * sum(r)        (max)
#  c = q + sum(e) + sum(lam * s) + sum(phi * r)                (sum)
# each sum by itself, and then added from left to right: an explanation of a price adds up to it.


@kernel
def lowest_node(
    cells: Cells, rule: Rule, request: Request, reach: Thresholds, t: int, k: int
) -> int:
    """Return the first node of type k that costs least in slot t, under the thresholds.

    With `max`, all nodes within the thresholds cost the same, dominated ones too.
    """
    capacity, usage = cells.capacity, cells.usage
    samples, memory_gb = request.throughput[k], request.memory_gb
    least, which = np.inf, -1
    for i in range(capacity.first_of[k], capacity.first_of[k + 1]):
        n = capacity.nodes_of[i]
        lam = cells.lam[t, n]
        phi = cells.phi[t, n] if memory_gb > 0.0 else 0.0
        if lam > reach.lam or phi > reach.phi:
            continue
        price = lam * samples + phi * memory_gb
        if price * (1.0 + TIE) >= least:
            continue
        used_compute = counted(usage.compute[t, n], rule.masked)
        used_memory = counted(usage.memory[t, n], rule.masked)
        if fits(used_compute, samples, capacity.compute[k]) and fits(
            used_memory, memory_gb, capacity.memory[k]
        ):
            least, which = price, n
            if rule.by_max:
                break
    return int(which)


@kernel
def _fill_nodes(
    cells: Cells,
    rule: Rule,
    request: Request,
    reach: Thresholds,
    num_cells: int,
    slots: Ints,
    types: Ints,
    nodes: Ints,
) -> None:
    for i in range(num_cells):
        nodes[i] = lowest_node(cells, rule, request, reach, slots[i], types[i])


@kernel
def schedule_cost(search: Search, num_cells: int, quote: int) -> tuple[float, float]:
    """c and the operating cost of the first `num_cells` cells in `scratch` with this quote."""
    cells, request, scratch = search.cells, search.request, search.scratch
    operating = 0.0
    samples = 0.0
    memory = 0.0
    lam_hat = 0.0
    phi_hat = 0.0
    compute_price = 0.0
    memory_price = 0.0
    for i in range(num_cells):
        t, n = scratch.cell_slots[i], scratch.cell_nodes[i]
        k = cells.capacity.type_of[n]
        lam, phi = cells.lam[t, n], cells.phi[t, n]
        operating += request.operating_cost[k, t]
        samples += request.throughput[k]
        memory += request.memory_gb
        lam_hat = max(lam_hat, lam)
        phi_hat = max(phi_hat, phi)
        compute_price += lam * request.throughput[k]
        memory_price += phi * request.memory_gb
    if search.rule.by_max:
        compute_price = lam_hat * samples
        memory_price = phi_hat * memory
    return request.quote_price[quote] + operating + compute_price + memory_price, operating


@kernel
def consider(search: Search, reach: Thresholds, num_cells: int, quote: int) -> None:
    """Give the cells of `scratch` (slots and types) their nodes, and keep them if they are best."""
    scratch = search.scratch
    _fill_nodes(
        search.cells,
        search.rule,
        search.request,
        reach,
        num_cells,
        scratch.cell_slots,
        scratch.cell_types,
        scratch.cell_nodes,
    )
    keep_if_best(search, num_cells, quote)


@kernel
def keep_if_best(search: Search, num_cells: int, quote: int) -> None:
    """Keep the cells of `scratch` (slots and nodes) if they are the best so far."""
    best, slots, nodes = search.best, search.scratch.cell_slots, search.scratch.cell_nodes
    cost, operating = schedule_cost(search, num_cells, quote)
    finish = slots[num_cells - 1]
    if not _precedes(slots, nodes, best, cost, finish, num_cells, quote):
        return
    best.cost[0], best.cost[1] = cost, operating
    best.summary[0] = finish
    best.summary[1] = num_cells
    best.summary[2] = quote
    best.slots[:num_cells] = slots[:num_cells]
    best.nodes[:num_cells] = nodes[:num_cells]


@kernel
def _precedes(
    slots: Ints, nodes: Ints, best: Best, cost: float, finish: int, num_cells: int, quote: int
) -> bool:
    incumbent = best.cost[0]
    if incumbent == np.inf:
        return True
    if abs(cost - incumbent) > TIE * max(cost, incumbent):
        return bool(cost < incumbent)
    if finish != best.summary[0]:
        return bool(finish < best.summary[0])
    if num_cells != best.summary[1]:
        return bool(num_cells < best.summary[1])
    if quote != best.summary[2]:
        return bool(quote < best.summary[2])
    for i in range(num_cells):
        if slots[i] != best.slots[i]:
            return bool(slots[i] < best.slots[i])
        if nodes[i] != best.nodes[i]:
            return bool(nodes[i] < best.nodes[i])
    return False
