"""The recursion (13) of Zheng et al., ICPP 2024, as printed (Algorithm 2, lines 6 to 13).

 dp[t, w] = min(dp[t - 1, w], min_k dp[t - 1, w - s_k] + delta_kt)
 delta_kt = s_k * lam_hat + r * phi_hat + e_kt

with lam_hat, phi_hat the highest prices among the cells behind dp[t - 1, w - s_k] and cell (k, t).
Each cell is charged at the maxima so far and not at those of the whole schedule, and one state
stands for all ways to do w, so the schedule is feasible but not always the cheapest. Its cost is
then counted by (10), as that of any schedule.

The loop over t is printed from a + h + 1 on; (12e) allows slot a + h too, and so does this. Work w
counts cells where one node type can run the task, else sixteenths of what the quickest one does in
a slot, others rounded down.
"""

import numpy as np

from auctune.auction.search.cells import lowest_node
from auctune.auction.search.covering import only_type
from auctune.auction.search.problem import UNITS_NEEDED, Search, Thresholds, Window
from auctune.auction.search.total_order import keep_if_best
from auctune.numerics.jit import kernel

_PER_CELL = 16


@kernel
def search_printed(search: Search, window: Window) -> None:
    """Find the recursion's schedule with the window's vendor; keep it if it is the best of all."""
    entries, request, scratch = search.entries, search.request, search.scratch
    units, start, num_types = search.units, search.entries.start, len(search.units)
    grain = max(int(np.max(units)), 1)
    if only_type(units) < 0:
        grain = max(grain // _PER_CELL, 1)
    steps = units // grain
    needed = -(-UNITS_NEEDED // grain)
    if needed > (window.last - window.first) * np.max(steps):
        return
    # Of the slots so far, by work: cost, highest prices, and the entry taken last in each slot.
    cost, lam, phi = np.full(needed + 1, np.inf), np.zeros(needed + 1), np.zeros(needed + 1)
    cost[0] = 0.0
    taken = np.full((window.last - window.first, needed + 1), -1)
    type_of = np.zeros((window.last - window.first, needed + 1), dtype=np.int64)
    for j in range(window.first, window.last):
        # From the most work down, so that less work still is that of the slot before.
        for w in range(needed, 0, -1):
            for k in range(num_types):
                at, rest = j * num_types + k, max(w - steps[k], 0)
                if steps[k] == 0 or cost[rest] == np.inf:
                    continue
                for i in range(start[at], start[at + 1]):
                    lam_hat, phi_hat = (
                        max(lam[rest], entries.lam[i]),
                        max(phi[rest], entries.phi[i]),
                    )
                    new = cost[rest] + (
                        request.throughput[k] * lam_hat
                        + request.memory_gb * phi_hat
                        + request.operating_cost[k, window.origin + j]
                    )
                    if new < cost[w]:
                        cost[w], lam[w], phi[w] = new, lam_hat, phi_hat
                        taken[j - window.first, w], type_of[j - window.first, w] = i, k
    if cost[needed] == np.inf:
        return
    # Behind dp[d, W], from the last slot back.
    num_cells, w = 0, needed
    for j in range(window.last - 1, window.first - 1, -1):
        i, k, t = taken[j - window.first, w], type_of[j - window.first, w], window.origin + j
        if i >= 0:
            reach = Thresholds(entries.lam[i], entries.phi[i])
            scratch.cell_slots[num_cells] = t
            scratch.cell_nodes[num_cells] = lowest_node(
                search.cells, search.rule, request, reach, t, k
            )
            num_cells += 1
            w = max(w - steps[k], 0)
    scratch.cell_slots[:num_cells] = scratch.cell_slots[:num_cells][::-1].copy()
    scratch.cell_nodes[:num_cells] = scratch.cell_nodes[:num_cells][::-1].copy()
    keep_if_best(search, num_cells, window.quote)
