"""One table for all completion times: Algorithm 2 of Pang et al. (TMC 2024), filled once.

 curve[t, d]  = least cost of d chunks in slot t, over the sites of the server
 best[t+1, d] = min over e of best[t, d - e] + curve[t, e],   best[0, 0] = 0

f is not in it. best[t+1, D] is the proposed cost of finishing by slot t, for every t. It takes all
data to be there in every slot; the forward pass mends that.

Kernels: S slots, R sites, D chunks.
"""

import numpy as np

from auctune.edge.arrays import Floats, Ints
from auctune.edge.search.fill import sort_tiers, walk
from auctune.numerics.jit import kernel


@kernel
def slot_curves(
    worker_price: Floats,
    server_price: Floats,
    traffic_price: Floats,
    room: Floats,
    chunk_mb: float,
    parameter_mb: float,
    level_workers: Ints,
    level_chunks: Ints,
    levels: Ints,
    levels_beside: Ints,
    data: Ints,
    curve: Floats,
    reach: Ints,
) -> None:
    """Fill curve [S, D + 1] and reach [S], the most chunks of each slot."""
    num_slots, num_sites = worker_price.shape
    total = curve.shape[1] - 1
    cost, keys = np.empty(total + 1), np.empty(3 * num_sites)
    level, trained = np.empty(num_sites, dtype=np.int64), np.empty(num_sites, dtype=np.int64)
    slack = np.empty((2, num_sites * 2 + 2), dtype=np.int64)
    for t in range(num_slots):
        if t > 0 and (
            room[t] == room[t - 1]
            and traffic_price[t] == traffic_price[t - 1]
            and np.array_equal(worker_price[t], worker_price[t - 1])
            and np.array_equal(server_price[t], server_price[t - 1])
            and np.array_equal(levels[t], levels[t - 1])
            and np.array_equal(levels_beside[t], levels_beside[t - 1])
        ):
            # Slots of which nothing is sold yet are all alike.
            curve[t] = curve[t - 1]
            reach[t] = reach[t - 1]
            continue
        curve[t, 0] = 0.0
        curve[t, 1:] = np.inf
        reach[t] = 0
        parameter_price = parameter_mb * traffic_price[t]
        chunk_price = chunk_mb * traffic_price[t]
        order = sort_tiers(
            worker_price[t], parameter_price, chunk_price, level_workers, level_chunks, data, keys
        )
        for server in range(num_sites):
            if levels_beside[t, server] < 0:
                continue
            reached = walk(
                server, total, worker_price[t], parameter_price, chunk_price, room[t],
                chunk_mb, parameter_mb, level_workers, level_chunks, levels[t],
                levels_beside[t], data, order, keys, cost, level, trained, slack,
            )  # fmt: skip
            reach[t] = max(reach[t], reached)
            for d in range(1, reached + 1):
                found = cost[d] + server_price[t, server]
                if found < curve[t, d]:
                    curve[t, d] = found


@kernel
def fill_table(curve: Floats, reach: Ints, best: Floats) -> None:
    """Fill best [S + 1, D + 1]."""
    num_slots, total = len(reach), curve.shape[1] - 1
    best[0, :] = np.inf
    best[0, 0] = 0.0
    possible = 0
    for t in range(num_slots):
        before, after, costs = best[t], best[t + 1], curve[t]
        after[:] = before
        for e in range(1, reach[t] + 1):
            extra = costs[e]
            # Beyond `possible` the row before is infinite.
            for d in range(e, min(total, possible + e) + 1):
                found = before[d - e] + extra
                after[d] = found if found < after[d] else after[d]
        possible = min(total, possible + reach[t])


@kernel
def read_split(curve: Floats, reach: Ints, best: Floats, last: int, split: Ints) -> None:
    """Fill split [S]: the chunks of each slot of the table's plan that ends by row `last`."""
    split[:] = 0
    left = curve.shape[1] - 1
    for t in range(last, -1, -1):
        if best[t, left] == best[t + 1, left]:
            continue
        for e in range(1, min(reach[t], left) + 1):
            if best[t, left - e] + curve[t, e] == best[t + 1, left]:
                split[t] = e
                left -= e
                break
