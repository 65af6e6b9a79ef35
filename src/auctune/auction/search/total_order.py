"""The total order among schedules, and the cost that it compares.

The order: least cost, earlier finish, fewer cells, first quote, then the lexicographic list of
(slot, node index). Costs that differ by rounding only tie (numerics.arrays.TIE).

The cost of a schedule, the same sum for every caller, in slot order:
 c = q + sum(e) + lam_hat * sum(s) + phi_hat * sum(r)        (max)
 c = q + sum(e) + sum(lam * s) + sum(phi * r)                (sum)
each sum by itself, and then added from left to right: an explanation of a price adds up to it.
"""

import numpy as np

from auctune.auction.search.cells import lowest_node
from auctune.auction.search.problem import Best, Cells, Request, Rule, Search, Thresholds
from auctune.numerics.arrays import TIE, Ints
from auctune.numerics.jit import kernel


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
