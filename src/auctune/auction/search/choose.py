"""From slots and types to nodes, and the total order among schedules.

The order: least cost, earlier finish, fewer cells, first quote, then the lexicographic list of
(slot, node index). Costs that differ by rounding only tie (tolerance.TIE).

The cost of a schedule, the same sum for every caller, in slot order:
 c = q + sum(e) + lam_hat * sum(s) + phi_hat * sum(r)        (max)
 c = q + sum(e + lam * s + phi * r)                          (sum)
"""

import numpy as np

from auctune.auction.search.gather import fits
from auctune.auction.search.problem import (
    MAX,
    Best,
    Cells,
    Request,
    Rule,
    Scratch,
    Search,
    Thresholds,
)
from auctune.auction.tolerance import TIE
from auctune.numerics.jit import kernel


@kernel
def cell_price(cells: Cells, request: Request, t: int, n: int, k: int) -> float:
    """lam * s + phi * r of one cell."""
    return float(cells.lam[t, n] * request.throughput[k] + cells.phi[t, n] * request.memory_gb)


@kernel
def lowest_node(search: Search, reach: Thresholds, t: int, k: int) -> int:
    """The first node of type k that costs least in slot t, under the thresholds.

    With `max`, all nodes within the thresholds cost the same, dominated ones too.
    """
    cells, rule, request = search.cells, search.rule, search.request
    capacity = cells.capacity
    limit = np.inf
    if rule.aggregate != MAX:
        limit = _least_price(cells, rule, request, t, k) * (1.0 + TIE)
    for i in range(capacity.first_of[k], capacity.first_of[k + 1]):
        n = capacity.nodes_of[i]
        phi = cells.phi[t, n] if request.memory_gb > 0.0 else 0.0
        if cells.lam[t, n] > reach.lam or phi > reach.phi:
            continue
        if cell_price(cells, request, t, n, k) > limit:
            continue
        if fits(cells, rule, request, t, n, k):
            return int(n)
    return -1


@kernel
def _least_price(cells: Cells, rule: Rule, request: Request, t: int, k: int) -> float:
    least = np.inf
    first = cells.capacity.first_of[k]
    for i in range(first, first + cells.usage.num_candidates[t, k]):
        n = cells.usage.candidates[t, i]
        if fits(cells, rule, request, t, n, k):
            least = min(least, cell_price(cells, request, t, n, k))
    return least


@kernel
def schedule_cost(search: Search, num_cells: int, quote: int) -> float:
    """c of the first `num_cells` cells in `scratch` with this quote."""
    cells, request, scratch = search.cells, search.request, search.scratch
    operating = 0.0
    samples = 0.0
    memory = 0.0
    lam_hat = 0.0
    phi_hat = 0.0
    additive = 0.0
    for i in range(num_cells):
        t, n = scratch.cell_slots[i], scratch.cell_nodes[i]
        k = cells.capacity.type_of[n]
        operating += request.operating_cost[k, t]
        samples += request.throughput[k]
        memory += request.memory_gb
        lam_hat = max(lam_hat, cells.lam[t, n])
        phi_hat = max(phi_hat, cells.phi[t, n])
        additive += request.operating_cost[k, t] + cell_price(cells, request, t, n, k)
    if search.rule.aggregate == MAX:
        return float(request.quote_price[quote] + operating + lam_hat * samples + phi_hat * memory)
    return float(request.quote_price[quote] + additive)


@kernel
def consider(search: Search, reach: Thresholds, num_cells: int, quote: int) -> None:
    """Give the cells of `scratch` (slots and types) their nodes, and keep them if they are best."""
    scratch, best = search.scratch, search.best
    for i in range(num_cells):
        scratch.cell_nodes[i] = lowest_node(
            search, reach, scratch.cell_slots[i], scratch.cell_types[i]
        )
    cost = schedule_cost(search, num_cells, quote)
    finish = scratch.cell_slots[num_cells - 1]
    if not _precedes(scratch, best, cost, finish, num_cells, quote):
        return
    best.cost[0] = cost
    best.summary[0] = finish
    best.summary[1] = num_cells
    best.summary[2] = quote
    best.slots[:num_cells] = scratch.cell_slots[:num_cells]
    best.nodes[:num_cells] = scratch.cell_nodes[:num_cells]


@kernel
def _precedes(
    scratch: Scratch, best: Best, cost: float, finish: int, num_cells: int, quote: int
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
        if scratch.cell_slots[i] != best.slots[i]:
            return bool(scratch.cell_slots[i] < best.slots[i])
        if scratch.cell_nodes[i] != best.nodes[i]:
            return bool(scratch.cell_nodes[i] < best.nodes[i])
    return False
