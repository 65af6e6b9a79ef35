"""From the table's split to a plan: slot by slot, with the data that are really left.

The table takes all data to be there in every slot; here each slot takes its own away, so that the
server, the workers and the moves of the next slot are chosen with what remains. Chunks from
elsewhere are taken where workers cost most over the slots of the plan, since that is where they
would be trained last. What finds no place in its slot is carried to the next. At the end it is
chosen anew which slot takes which chunks: the plan as a whole is known then.

Kernels: S slots, R sites, D chunks.
"""

import numpy as np

from auctune.edge.search.fill import (
    greedy_fill,
    make_fill,
    pairs_by_omega,
    printed_fill,
    sort_tiers,
)
from auctune.edge.search.problem import Subproblem, slot_problem
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel


@kernel
def build_plan(
    subproblem: Subproblem, split: Ints, servers: Ints, trained: Ints, taken: Ints
) -> bool:
    """Fill servers [S] (-1 for none), trained [S, R] and taken [S, R] chunks.

    Args:
        subproblem: the job.
        split: [S] chunks of each slot.
        servers, trained, taken: filled.

    Returns:
        Whether all chunks have their place.
    """
    num_slots, num_sites = trained.shape
    remaining = subproblem.data.copy()
    wish = _dearness(subproblem.worker_price, split)
    fill = make_fill(num_sites, int(remaining.sum()))
    servers[:] = -1
    trained[:] = 0
    taken[:] = 0
    carried = 0
    for t in range(num_slots):
        target = split[t] + carried
        if target == 0:
            continue
        slot = slot_problem(subproblem, t, remaining)
        most, least = 0, np.inf
        if subproblem.printed:
            servers[t], _ = printed_fill(slot, target, pairs_by_omega(slot), trained[t])
            most = trained[t].sum()
            if servers[t] < 0 or most == 0:
                servers[t], most = -1, 0
                trained[t] = 0
        else:
            order = sort_tiers(slot, fill.keys)
            for server in range(num_sites):
                if slot.levels_beside[server] < 0:
                    continue
                reached = greedy_fill(slot, server, target, order, fill)
                found = fill.cost[reached] + slot.server_price[server]
                if reached > most or (reached == most and reached > 0 and found < least):
                    most, least = reached, found
                    servers[t] = server
                    trained[t] = fill.trained
        carried = target - most
        if most > 0:
            take_data(trained[t], remaining, wish, taken[t])
    if carried > 0:
        return False
    spend_data(subproblem, servers, trained, taken)
    return True


@kernel
def spend_data(subproblem: Subproblem, servers: Ints, trained: Ints, taken: Ints) -> None:
    """Choose anew which chunks each slot takes, so that least is paid for what crosses.

    What is trained where stays as it is. A site's own chunks are best trained there in the slots
    where traffic is dearest; with all that a site can use of its own, sites either give or take,
    and what crosses in a slot may come from any giver. Left as it was where a slot lacks the room.

    Args:
        subproblem: the job.
        servers: [S].
        trained: [S, R].
        taken: [S, R], filled anew.
    """
    chunk_mb, level_chunks = subproblem.chunk_mb, subproblem.level_chunks
    num_slots, num_sites = trained.shape
    dearest = np.argsort(-subproblem.traffic_price[:num_slots], kind="mergesort")
    chosen = np.zeros_like(trained)
    remaining = subproblem.data.copy()
    for site in range(num_sites):
        for t in dearest:
            chosen[t, site] = min(trained[t, site], remaining[site])
            remaining[site] -= chosen[t, site]
    giver = 0
    for t in range(num_slots):
        missing = 0
        crossing = 0.0
        for site in range(num_sites):
            missing += trained[t, site] - chosen[t, site]
            if site != servers[t]:
                level = np.searchsorted(level_chunks, trained[t, site])
                crossing += subproblem.parameter_mb * subproblem.level_workers[level]
        if missing > 0 and crossing + chunk_mb * missing > subproblem.room[t]:
            return
        while missing > 0:
            more = min(missing, remaining[giver])
            chosen[t, giver] += more
            remaining[giver] -= more
            missing -= more
            giver += remaining[giver] == 0
    taken[:] = chosen


@kernel
def plan_cost(
    worker_price: Floats,
    server_price: Floats,
    alpha: Floats,
    chunk_mb: float,
    parameter_mb: float,
    needed: Ints,
    servers: Ints,
    trained: Ints,
    taken: Ints,
) -> float:
    """Return what a plan costs: eq. 8, summed over its slots.

    Args:
        worker_price, server_price: [S, R] money a worker and a server, as they are charged.
        alpha: [S] money a MB.
        chunk_mb, parameter_mb: theta, lambda.
        needed: [D + 1] workers by chunks at one site.
        servers: [S]; -1 for none.
        trained, taken: [S, R] chunks.
    """
    num_slots, num_sites = trained.shape
    total = 0.0
    for t in range(num_slots):
        server = servers[t]
        if server < 0:
            continue
        crossing = 0.0
        total += server_price[t, server]
        for site in range(num_sites):
            workers = needed[trained[t, site]]
            total += workers * worker_price[t, site]
            crossing += chunk_mb * max(trained[t, site] - taken[t, site], 0)
            if site != server:
                crossing += parameter_mb * workers
        total += alpha[t] * crossing
    return total


@kernel
def take_data(trained: Ints, remaining: Ints, wish: Floats, taken: Ints) -> None:
    """Fill taken [R], where a slot's chunks come from, and take them off remaining [R].

    Args:
        trained: [R] chunks by the site that trains them.
        remaining: [R] chunks not taken yet; written.
        wish: [R] the higher, the rather a site's data go elsewhere.
        taken: [R].
    """
    missing = 0
    for site in range(len(remaining)):
        taken[site] = min(trained[site], remaining[site])
        missing += trained[site] - taken[site]
        remaining[site] -= taken[site]
    for site in np.argsort(-wish, kind="mergesort"):
        if missing == 0:
            break
        more = min(missing, remaining[site])
        taken[site] += more
        remaining[site] -= more
        missing -= more


@kernel
def _dearness(worker_price: Floats, split: Ints) -> Floats:
    """[R] what workers for the plan's chunks would cost, all at one site."""
    mean = np.zeros(worker_price.shape[1])
    for t in range(len(split)):
        if split[t] > 0:
            mean += worker_price[t] * split[t]
    return mean
