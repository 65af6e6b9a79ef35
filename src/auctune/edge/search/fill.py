"""The cheapest d chunks of one slot, for all d at once: problem (8) of Pang et al. (TMC 2024).

With the server at site s a worker at r costs q_r = sum_k w^k beta_r^k + lambda alpha [r != s], and
a chunk that comes from elsewhere theta alpha. Each site has three tiers of workers: those whose
chunks all lie there (`OWN`), one with some that do (`MIXED`), those whose chunks all come from
elsewhere (`BROUGHT`). By price a chunk the tiers of all sites are one rising list, so the fill of
d + 1 chunks continues that of d: one walk down the list is the cost curve. Places that an open
worker has left for chunks from elsewhere cost theta alpha each, and are taken as soon as nothing is
cheaper.

That is the paper's Omega, split into site prices (sites are sorted, not pairs of sites), with
whole workers, parameters and the server in it, one budget B, and exported chunks without workers.

`printed_fill` is the paper's Algorithm 3 as printed, to show what it costs.

Kernels: R sites, J + 1 levels, D chunks.
"""

from typing import NamedTuple

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel

OWN, MIXED, BROUGHT = 0, 1, 2


class SlotProblem(NamedTuple):
    """One job in one slot, at the prices and in the room of a moment."""

    worker_price: Floats  # [R] money a worker
    server_price: Floats  # [R] money a server
    traffic_price: float  # alpha, money a MB
    room: float  # MB free
    chunk_mb: float  # theta
    parameter_mb: float  # lambda
    level_workers: Ints  # [J + 1]
    level_chunks: Ints  # [J + 1]
    levels: Ints  # [R] the highest level that fits, without a server
    levels_beside: Ints  # [R] beside the server; -1 where that does not fit
    data: Ints  # [R] chunks remaining


class Fill(NamedTuple):
    """Buffers of a walk, and what it leaves in them."""

    keys: Floats  # [3 R] price a chunk of each tier (3 r + tier), as if the server were elsewhere
    server_keys: Floats  # [3] of the server's site
    cost: Floats  # [D + 1] of d chunks, without the server
    level: Ints  # [R] open level of each site
    trained: Ints  # [R] chunks of each site
    places: Ints  # [2, 2 R + 2] stack of sites with open places, and how many


@kernel
def make_fill(num_sites: int, num_chunks: int) -> Fill:
    """Return buffers for a job of `num_chunks`."""
    return Fill(
        np.empty(3 * num_sites),
        np.empty(3),
        np.empty(num_chunks + 1),
        np.empty(num_sites, dtype=np.int64),
        np.empty(num_sites, dtype=np.int64),
        np.empty((2, 2 * num_sites + 2), dtype=np.int64),
    )


@kernel
def highest_level(level_chunks: Ints, local: int, tier: int) -> int:
    """Return the level up to which a tier goes at a site with `local` chunks; it may not fit."""
    if tier == BROUGHT:
        return len(level_chunks) - 1
    full = np.searchsorted(level_chunks, local, side="right") - 1
    return int(full + (tier == MIXED and local > level_chunks[full]))


@kernel
def tier_keys(
    level_workers: Ints,
    level_chunks: Ints,
    local: int,
    price: float,
    chunk_price: float,
    keys: Floats,
) -> None:
    """Fill keys [3]: the price a chunk of each tier of a site with `local` chunks.

    Args:
        level_workers, level_chunks: [J + 1].
        local: chunks that lie there.
        price: of a worker there.
        chunk_price: theta alpha.
        keys: filled.
    """
    last = len(level_chunks) - 1
    full = highest_level(level_chunks, local, OWN)
    keys[OWN] = price * (level_workers[last] / level_chunks[last])
    keys[BROUGHT] = keys[OWN] + chunk_price
    keys[MIXED] = keys[BROUGHT]
    if full < last and local > level_chunks[full]:
        able = level_chunks[full + 1] - level_chunks[full]
        opened = price * (level_workers[full + 1] - level_workers[full])
        alone = opened / (local - level_chunks[full])
        whole = (opened + chunk_price * (level_chunks[full + 1] - local)) / able
        keys[MIXED] = max(keys[OWN], min(alone, whole))


@kernel
def sort_tiers(slot: SlotProblem, keys: Floats) -> Ints:
    """Fill keys [3 R], every worker away from the server; return [3 R] tiers by rising key."""
    level_workers, level_chunks, data = slot.level_workers, slot.level_chunks, slot.data
    worker_price = slot.worker_price
    parameter_price = slot.parameter_mb * slot.traffic_price
    chunk_price = slot.chunk_mb * slot.traffic_price
    for site in range(len(data)):
        price, its_keys = worker_price[site] + parameter_price, keys[3 * site : 3 * site + 3]
        tier_keys(level_workers, level_chunks, data[site], price, chunk_price, its_keys)
    # Stable: tiers of one site that cost the same stay in their order.
    return np.argsort(keys, kind="mergesort")


@kernel
def greedy_fill(slot: SlotProblem, server: int, target: int, order: Ints, fill: Fill) -> int:
    """Fill one slot with the server at a site: buffers of `fill` but for `keys`.

    Invariant: cost[d] is known for all d <= total, the last of them is the cost of `level` and
    `trained`, and no tier before the next one, nor an open place, has a cheaper chunk that fits.

    Args:
        slot: the job in the slot.
        server: s.
        target: chunks at which to stop.
        order: of `sort_tiers`, which has filled `fill.keys`.
        fill: buffers.

    Returns:
        Chunks reached, at most `target`.
    """
    # In locals, as each access to an array of a tuple counts a reference.
    level_workers, level_chunks, data = slot.level_workers, slot.level_chunks, slot.data
    worker_price, levels, levels_beside = slot.worker_price, slot.levels, slot.levels_beside
    chunk_mb, parameter_mb = slot.chunk_mb, slot.parameter_mb
    parameter_price, chunk_price = parameter_mb * slot.traffic_price, chunk_mb * slot.traffic_price
    keys, server_keys, cost = fill.keys, fill.server_keys, fill.cost
    level, trained, places = fill.level, fill.trained, fill.places
    level[:] = 0
    trained[:] = 0
    cost[0] = 0.0
    price = worker_price[server]
    tier_keys(level_workers, level_chunks, data[server], price, chunk_price, server_keys)
    total, spent, room, num_open = 0, 0.0, slot.room, 0
    next_away, next_own = 0, 0
    while total < target:
        while next_away < len(order) and order[next_away] // 3 == server:
            next_away += 1
        away_key = keys[order[next_away]] if next_away < len(order) else np.inf
        own_key = server_keys[next_own] if next_own < 3 else np.inf
        key = min(away_key, own_key)
        while num_open > 0 and chunk_price <= key and total < target and chunk_mb <= room:
            total += 1
            trained[places[0, num_open - 1]] += 1
            spent += chunk_price
            room -= chunk_mb
            cost[total] = spent
            places[1, num_open - 1] -= 1
            num_open -= places[1, num_open - 1] == 0
        if total == target or key == np.inf:
            break
        at_server = own_key <= away_key
        site = server if at_server else order[next_away] // 3
        tier = next_own if at_server else order[next_away] % 3
        fitting = levels_beside[site] if at_server else levels[site]
        now, workers, able, local, rest = level[site], 0, 0, 0, -1.0
        if now < min(fitting, highest_level(level_chunks, data[site], tier)):
            workers = level_workers[now + 1] - level_workers[now]
            able = level_chunks[now + 1] - level_chunks[now]
            local = min(max(data[site] - level_chunks[now], 0), able)
            rest = room if at_server else room - parameter_mb * workers
        # A level without local chunks needs the room for one from elsewhere, which comes next.
        if rest < (chunk_mb if local == 0 else 0.0):
            next_own += at_server
            next_away += not at_server
            continue
        level[site] = now + 1
        spent += (worker_price[site] + (0.0 if at_server else parameter_price)) * workers
        room = rest
        for _ in range(min(local, target - total)):
            total += 1
            trained[site] += 1
            cost[total] = spent
        if able > local:
            places[0, num_open] = site
            places[1, num_open] = able - local
            num_open += 1
    return total


@kernel
def pairs_by_omega(slot: SlotProblem) -> Ints:
    """Pairs r * R + r' of sites with Omega (9) below 0, that is, a chunk of r is cheaper trained at
    r' although it crosses; the lowest Omega first.

    All R (R - 1) ordered pairs: line 2 lists R (R - 1) / 2, although Omega has a direction, and the
    text below (9) stops where Omega is below 0, where line 4 transmits.
    """
    num_sites, worker_price = len(slot.data), slot.worker_price
    chunk_price = slot.chunk_mb * slot.traffic_price
    rate = slot.level_workers[-1] / slot.level_chunks[-1]
    omega = np.empty(num_sites * num_sites)
    for giver in range(num_sites):
        for taker in range(num_sites):
            saved = rate * (worker_price[giver] - worker_price[taker])
            omega[giver * num_sites + taker] = np.inf if giver == taker else chunk_price - saved
    order = np.argsort(omega, kind="mergesort")
    return order[: np.searchsorted(omega[order], 0.0)]


@kernel
def printed_fill(slot: SlotProblem, target: int, pairs: Ints, trained: Ints) -> tuple[int, float]:
    """Fill one slot by Algorithm 3 of Pang et al. (TMC 2024), with its faults.

    As printed, (10) compares the workload with the receivers of all earlier pairs, one that is in
    several of them once for each; each pair has the whole budget of traffic; workers are counted
    for data that left; data at a full site stay there unless Omega < 0; and each site keeps room
    for the server, which goes where most workers are.

    Args:
        slot: the job in the slot; its data are M.
        target: d, chunks.
        pairs: of `pairs_by_omega`.
        trained: [R] filled: chunks that these workers can train of the data that they have.

    Returns:
        Site of the server, and the cost of line 20; -1 and infinity if the workload is found to be
        infeasible.
    """
    level_workers, level_chunks, data = slot.level_workers, slot.level_chunks, slot.data
    num_sites = len(data)
    incoming, outgoing = np.zeros(num_sites, dtype=np.int64), np.zeros(num_sites, dtype=np.int64)
    excluded = np.zeros(num_sites, dtype=np.bool_)
    times, workload = np.zeros(num_sites, dtype=np.int64), 0
    for pair in pairs:
        giver, taker = pair // num_sites, pair % num_sites
        if excluded[giver] or excluded[taker]:
            continue
        able = level_chunks[max(slot.levels_beside[taker], 0)]
        moved = min(
            data[giver] - outgoing[giver], target - workload, able - data[taker] - incoming[taker]
        )
        if slot.chunk_mb > 0:
            moved = min(moved, int(slot.room / slot.chunk_mb))
        if moved < 0:
            excluded[taker] = True
            moved = 0
        outgoing[giver] += moved
        incoming[taker] += moved
        workload += times[taker] * moved + data[taker] + incoming[taker]
        times[taker] += 1
    needed = level_workers[np.searchsorted(level_chunks, target)]
    workers = np.zeros(num_sites, dtype=np.int64)
    order = np.argsort(slot.worker_price, kind="mergesort")
    total = 0
    trained[:] = 0
    reached = 0
    for site in order:
        own = level_workers[np.searchsorted(level_chunks, data[site] + incoming[site])]
        fitting = level_workers[max(slot.levels_beside[site], 0)]
        workers[site] = min(own, fitting, needed - total)
        total += workers[site]
        able = level_chunks[np.searchsorted(level_workers, workers[site], side="right") - 1]
        there = data[site] + incoming[site] - outgoing[site]
        trained[site] = min(able, there, target - reached)
        reached += trained[site]
    server = int(np.argmax(workers))
    crossing = slot.chunk_mb * incoming.sum() + slot.parameter_mb * (total - workers[server])
    if total < needed or crossing > slot.room:
        return -1, np.inf
    cost = slot.server_price[server] + slot.traffic_price * crossing
    for site in range(num_sites):
        cost += slot.worker_price[site] * workers[site]
    return server, cost
