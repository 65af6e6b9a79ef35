"""The cheapest d chunks of one slot, for all d at once: problem (8) of Pang et al. (TMC 2024).

With the server at site s a worker at r costs q_r = sum_k w^k beta_r^k + lambda alpha [r != s], and
a chunk that comes from elsewhere theta alpha. A site is filled in three tiers: workers whose
chunks all lie there, one worker with some that do, workers whose chunks all come from elsewhere.
By price a chunk the tiers of all sites are one rising list, so the fill of d + 1 chunks continues
that of d: one walk down the list is the cost curve. Places that an open worker has left for chunks
from elsewhere cost theta alpha each, and are taken as soon as nothing is cheaper.

That is the paper's Omega, split into site prices (sites are sorted, not pairs of sites), with
whole workers, parameters and the server in it, one budget B, and exported chunks without workers.

`printed_fill` is the paper's Algorithm 3 as printed, to show what it costs.

Kernels: arrays and scalars in, a count out. R sites, J + 1 levels, D chunks.
"""

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel

OWN, MIXED, BROUGHT = 0, 1, 2


@kernel
def cost_class_keys(
    site: int,
    price: float,
    chunk_price: float,
    level_workers: Ints,
    level_chunks: Ints,
    data: Ints,
    keys: Floats,
) -> None:
    """keys[0:3] = price a chunk of the three tiers of a site whose worker costs `price`."""
    last = len(level_workers) - 1
    rate = level_workers[last] / level_chunks[last]
    here = data[site]
    full = np.searchsorted(level_chunks, here, side="right") - 1
    keys[OWN] = price * rate
    keys[BROUGHT] = price * rate + chunk_price
    keys[MIXED] = keys[BROUGHT]
    if full < last and here > level_chunks[full]:
        lying = here - level_chunks[full]
        able = level_chunks[full + 1] - level_chunks[full]
        opened = price * (level_workers[full + 1] - level_workers[full])
        alone = opened / lying
        whole = (opened + chunk_price * (able - lying)) / able
        keys[MIXED] = max(keys[OWN], min(alone, whole))


@kernel
def greedy_fill(
    server: int,
    target: int,
    worker_price: Floats,
    parameter_price: float,
    chunk_price: float,
    room: float,
    chunk_mb: float,
    parameter_mb: float,
    level_workers: Ints,
    level_chunks: Ints,
    levels: Ints,
    levels_beside: Ints,
    data: Ints,
    order: Ints,
    keys: Floats,
    cost: Floats,
    level: Ints,
    trained: Ints,
    slack: Ints,
) -> int:
    """Fill one slot with the server at a site.

    Args:
        server: s.
        target: chunks at which to stop.
        worker_price: [R] money a worker.
        parameter_price: lambda alpha.
        chunk_price: theta alpha.
        room: MB left.
        chunk_mb, parameter_mb: theta, lambda.
        level_workers, level_chunks: [J + 1].
        levels, levels_beside: [R] the highest level that fits, without and with the server.
        data: [R] chunks left.
        order: [3 R] tiers (3 r + tier) by rising price a chunk, as if every worker were away.
        keys: [3 R] these prices, by tier.
        cost: [D + 1] filled: cost[d], without the server, of d chunks.
        level, trained: [R] filled: level and chunks of each site at the end.
        slack: [2, R] work.

    Returns:
        Chunks reached, at most `target`.
    """
    num_sites, last = len(data), len(level_workers) - 1
    level[:] = 0
    trained[:] = 0
    own_keys = np.empty(3)
    cost_class_keys(
        server, worker_price[server], chunk_price, level_workers, level_chunks, data, own_keys
    )
    total, spent, num_slack = 0, 0.0, 0
    position, own_tier = 0, 0
    cost[0] = 0.0
    while total < target:
        while position < 3 * num_sites and order[position] // 3 == server:
            position += 1
        away_key = keys[order[position]] if position < 3 * num_sites else np.inf
        own_key = own_keys[own_tier] if own_tier < 3 else np.inf
        key = min(away_key, own_key)
        while num_slack > 0 and chunk_price <= key and total < target and chunk_mb <= room:
            site = slack[0, num_slack - 1]
            slack[1, num_slack - 1] -= 1
            if slack[1, num_slack - 1] == 0:
                num_slack -= 1
            total += 1
            trained[site] += 1
            spent += chunk_price
            room -= chunk_mb
            cost[total] = spent
        if total == target or key == np.inf:
            break
        at_server = own_key <= away_key
        site = server if at_server else order[position] // 3
        tier = own_tier if at_server else order[position] % 3
        here = data[site]
        full = np.searchsorted(level_chunks, here, side="right") - 1
        highest = levels_beside[site] if at_server else levels[site]
        if tier == OWN:
            highest = min(highest, full)
        elif tier == MIXED and here > level_chunks[min(full, last)]:
            highest = min(highest, full + 1)
        elif tier == MIXED:
            highest = min(highest, full)
        now = level[site]
        price = worker_price[site] + (0.0 if at_server else parameter_price)
        fits = now < highest
        if fits:
            more = level_workers[now + 1] - level_workers[now]
            able = level_chunks[now + 1] - level_chunks[now]
            lying = min(max(here - level_chunks[now], 0), able)
            crossing = 0.0 if at_server else parameter_mb * more
            fits = crossing + (chunk_mb if lying == 0 else 0.0) <= room
        if not fits:
            if at_server:
                own_tier += 1
            else:
                position += 1
            continue
        level[site] = now + 1
        spent += price * more
        room -= crossing
        for _ in range(min(lying, target - total)):
            total += 1
            trained[site] += 1
            cost[total] = spent
        if able > lying and total < target:
            slack[0, num_slack] = site
            slack[1, num_slack] = able - lying
            num_slack += 1
            if lying == 0:
                # It was opened for a chunk from elsewhere: that one comes at once.
                total += 1
                trained[site] += 1
                spent += chunk_price
                room -= chunk_mb
                cost[total] = spent
                slack[1, num_slack - 1] -= 1
                if slack[1, num_slack - 1] == 0:
                    num_slack -= 1
    return total


@kernel
def sort_cost_classes(
    worker_price: Floats,
    parameter_price: float,
    chunk_price: float,
    level_workers: Ints,
    level_chunks: Ints,
    data: Ints,
    keys: Floats,
) -> Ints:
    """[3 R] tiers of all sites by rising price a chunk, every worker away from the server; fills
    `keys` [3 R]."""
    for site in range(len(data)):
        cost_class_keys(
            site,
            worker_price[site] + parameter_price,
            chunk_price,
            level_workers,
            level_chunks,
            data,
            keys[3 * site : 3 * site + 3],
        )
    # Stable: tiers of one site that cost the same stay in their order.
    return np.argsort(keys, kind="mergesort")


@kernel
def pairs_by_omega(
    worker_price: Floats, chunk_price: float, level_workers: Ints, level_chunks: Ints
) -> Ints:
    """Pairs r * R + r' of sites with Omega (9) below 0, that is, a chunk of r is cheaper trained at
    r' although it crosses; the lowest Omega first."""
    num_sites, last = len(worker_price), len(level_workers) - 1
    rate = level_workers[last] / level_chunks[last]
    omega = np.empty(num_sites * num_sites)
    for giver in range(num_sites):
        for taker in range(num_sites):
            saved = rate * (worker_price[giver] - worker_price[taker])
            omega[giver * num_sites + taker] = np.inf if giver == taker else chunk_price - saved
    order = np.argsort(omega, kind="mergesort")
    return order[: np.searchsorted(omega[order], 0.0)]


@kernel
def printed_fill(
    target: int,
    worker_price: Floats,
    server_price: Floats,
    traffic_price: float,
    room: float,
    chunk_mb: float,
    parameter_mb: float,
    level_workers: Ints,
    level_chunks: Ints,
    levels_beside: Ints,
    data: Ints,
    pairs: Ints,
    trained: Ints,
) -> tuple[int, float]:
    """Fill one slot by Algorithm 3 of Pang et al. (TMC 2024), with its faults.

    As printed, (10) compares the workload with the receivers of all earlier pairs, one that is in
    several of them once for each; each pair has the whole budget of traffic; workers are counted
    for data that left; data at a full site stay there unless Omega < 0; and each site keeps room
    for the server, which goes where most workers are.

    Args:
        target: d, chunks.
        worker_price, server_price: [R] money.
        traffic_price: alpha.
        room: MB left.
        chunk_mb, parameter_mb: theta, lambda.
        level_workers, level_chunks: [J + 1].
        levels_beside: [R] the highest level that fits beside the server; -1 where that does not.
        data: [R] chunks left, M.
        pairs: as `pairs_by_omega` has them.
        trained: [R] filled: chunks that these workers can train of the data that they have.

    Returns:
        Site of the server, and the cost of line 20; -1 and infinity if the workload is found to be
        infeasible.
    """
    num_sites = len(data)
    incoming, outgoing = np.zeros(num_sites, dtype=np.int64), np.zeros(num_sites, dtype=np.int64)
    excluded = np.zeros(num_sites, dtype=np.bool_)
    times, counted = np.zeros(num_sites, dtype=np.int64), 0
    for pair in pairs:
        giver, taker = pair // num_sites, pair % num_sites
        if excluded[giver] or excluded[taker]:
            continue
        able = level_chunks[max(levels_beside[taker], 0)]
        moved = min(
            data[giver] - outgoing[giver], target - counted, able - data[taker] - incoming[taker]
        )
        if chunk_mb > 0:
            moved = min(moved, int(room / chunk_mb))
        if moved < 0:
            excluded[taker] = True
            moved = 0
        outgoing[giver] += moved
        incoming[taker] += moved
        counted += times[taker] * moved + data[taker] + incoming[taker]
        times[taker] += 1
    needed = level_workers[np.searchsorted(level_chunks, target)]
    workers = np.zeros(num_sites, dtype=np.int64)
    order = np.argsort(worker_price, kind="mergesort")
    total = 0
    trained[:] = 0
    reached = 0
    for site in order:
        own = level_workers[np.searchsorted(level_chunks, data[site] + incoming[site])]
        fitting = level_workers[max(levels_beside[site], 0)]
        workers[site] = min(own, fitting, needed - total)
        total += workers[site]
        able = level_chunks[np.searchsorted(level_workers, workers[site], side="right") - 1]
        there = data[site] + incoming[site] - outgoing[site]
        trained[site] = min(able, there, target - reached)
        reached += trained[site]
    server = int(np.argmax(workers))
    crossing = chunk_mb * incoming.sum() + parameter_mb * (total - workers[server])
    if total < needed or crossing > room:
        return -1, np.inf
    cost = server_price[server] + traffic_price * crossing
    for site in range(num_sites):
        cost += worker_price[site] * workers[site]
    return server, cost
