"""The search's subproblem of one job as arrays, and its table over slots."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from auctune.edge.job import EdgeJob, workers_for
from auctune.edge.ledger import EdgeLedger
from auctune.edge.prices import EdgePrices
from auctune.edge.search.fill import (
    SlotProblem,
    greedy_fill,
    make_fill,
    pairs_by_omega,
    printed_fill,
    sort_tiers,
)
from auctune.numerics.arrays import FIT, Floats, Ints
from auctune.numerics.jit import kernel

# Shapes: S slots from the first possible one, R sites, K types, D chunks, J + 1 levels.
#
# Workers are whole and a chunk is trained at one site in one slot, so a site is filled level by
# level: level j stands for the least workers that train one more chunk than level j - 1 could, or,
# where one worker trains several, for one more worker.


# A plan may cost this much more for a whole site, or all traffic, in a slot, if that takes less:
# of plans that are free, as all are while nothing is sold, the one that leaves most is best.
TIE_BREAK = 1e-4


class Subproblem(NamedTuple):
    """One job at the prices and in the room of a moment."""

    first: int  # the slot of row 0
    worker_price: Floats  # [S, R] money a worker
    server_price: Floats  # [S, R] money a server
    traffic_price: Floats  # [S] money a MB
    room: Floats  # [S] MB free
    chunk_mb: float
    parameter_mb: float
    level_workers: Ints  # [J + 1]
    level_chunks: Ints  # [J + 1]
    levels: Ints  # [S, R] the highest level that fits, without a server
    levels_beside: Ints  # [S, R] beside the server; -1 where that does not fit
    data: Ints  # [R] chunks remaining
    printed: bool = False  # slots are filled by the paper's Algorithm 3 as printed


def make_subproblem(ledger: EdgeLedger, prices: EdgePrices, job: EdgeJob, data: Ints) -> Subproblem:
    """Return the subproblem of a job with `data` [R] chunks left, from slot `prices.first` on."""
    market, first = ledger.market, prices.first
    worker, server = market.needs(job.worker), market.needs(job.server)
    free = ledger.free(first)
    level_workers, level_chunks = levels_of(job, int(data.sum()))
    shares = np.where(ledger.capacity > 0, ledger.capacity, 1.0)
    tie_break = TIE_BREAK / len(market.types) / shares
    beta = prices.beta + tie_break
    beside = np.where(
        # A server that occupies nothing fits everywhere, but for a lost site.
        np.all(free * (1 + FIT) + FIT >= server, axis=2) & ~ledger.closed[first - ledger.begin :],
        _highest(free - server, worker, level_workers),
        -1,
    )
    return Subproblem(
        first=first,
        worker_price=beta @ worker,
        server_price=beta @ server,
        traffic_price=prices.alpha + TIE_BREAK / market.traffic_mb_per_slot,
        room=ledger.room(first),
        # Kernels would be compiled anew for whole numbers.
        chunk_mb=float(market.chunk_mb),
        parameter_mb=float(job.parameter_mb),
        level_workers=level_workers,
        level_chunks=level_chunks,
        levels=_highest(free, worker, level_workers),
        levels_beside=beside,
        data=data,
    )


def levels_of(job: EdgeJob, chunks: int) -> tuple[Ints, Ints]:
    """[J + 1] workers and chunks of the levels; the last one trains `chunks` or more."""
    # A job is asked about many times, and differs from others in few rates.
    return _levels(job.epochs, job.chunks_per_worker_slot, chunks)


@lru_cache(maxsize=4096)
def _levels(epochs: int, rate: float, chunks: int) -> tuple[Ints, Ints]:
    workers, trained = [0], [0]
    while trained[-1] < chunks:
        # The workers for one more chunk may be enough for several.
        needed = workers_for(epochs, rate, trained[-1] + 1)
        able = int(needed * rate / epochs * (1 + FIT))
        workers.append(needed)
        trained.append(max(able, trained[-1] + 1))
    return np.array(workers, dtype=np.int64), np.array(trained, dtype=np.int64)


def _highest(free: Floats, worker: Floats, level_workers: Ints) -> Ints:
    """[S, R] the highest level whose workers fit what is free [S, R, K]."""
    wanted = worker > 0
    fits = np.floor((free[:, :, wanted] / worker[wanted]) * (1 + FIT) + FIT).min(axis=2)
    levels: Ints = np.searchsorted(level_workers, np.maximum(fits, 0.0), side="right") - 1
    return levels


# One table for all completion times: Algorithm 2 of Pang et al. (TMC 2024), filled once.
#
#  curve[t, d]  = least cost of d chunks in slot t, over the sites of the server
#  best[t+1, d] = min over e of best[t, d - e] + curve[t, e],   best[0, 0] = 0
#
# f is not in it. best[t+1, D] is the proposed cost of finishing by slot t, for every t. It takes
# all data to be there in every slot; the forward pass mends that.
#
# Kernels: S slots, R sites, D chunks.


@kernel
def slot_problem(subproblem: Subproblem, row: int, data: Ints) -> SlotProblem:
    """Return what there is to fill in a row's slot when `data` [R] chunks remain."""
    return SlotProblem(
        subproblem.worker_price[row],
        subproblem.server_price[row],
        subproblem.traffic_price[row],
        subproblem.room[row],
        subproblem.chunk_mb,
        subproblem.parameter_mb,
        subproblem.level_workers,
        subproblem.level_chunks,
        subproblem.levels[row],
        subproblem.levels_beside[row],
        data,
    )


@kernel
def _are_equal(left: SlotProblem, right: SlotProblem) -> bool:
    """Return whether two slots of one job have the same curve, as their prices and room agree."""
    return (
        left.room == right.room
        and left.traffic_price == right.traffic_price
        and np.array_equal(left.worker_price, right.worker_price)
        and np.array_equal(left.server_price, right.server_price)
        and np.array_equal(left.levels, right.levels)
        and np.array_equal(left.levels_beside, right.levels_beside)
    )


@kernel
def slot_curves(subproblem: Subproblem, curve: Floats, reach: Ints) -> None:
    """Fill curve [S, D + 1] and reach [S], the most chunks of each slot."""
    data, total = subproblem.data, curve.shape[1] - 1
    fill = make_fill(len(data), total)
    for t in range(len(reach)):
        slot = slot_problem(subproblem, t, data)
        if t > 0 and _are_equal(slot, slot_problem(subproblem, t - 1, data)):
            # Slots of which nothing is sold yet are all alike.
            curve[t] = curve[t - 1]
            reach[t] = reach[t - 1]
            continue
        curve[t, 0] = 0.0
        curve[t, 1:] = np.inf
        reach[t] = 0
        if subproblem.printed:
            pairs = pairs_by_omega(slot)
            for d in range(1, total + 1):
                _, curve[t, d] = printed_fill(slot, d, pairs, fill.trained)
                if curve[t, d] < np.inf:
                    reach[t] = d
            continue
        order = sort_tiers(slot, fill.keys)
        for server in range(len(data)):
            if slot.levels_beside[server] < 0:
                continue
            reached = greedy_fill(slot, server, total, order, fill)
            reach[t] = max(reach[t], reached)
            for d in range(1, reached + 1):
                found = fill.cost[d] + slot.server_price[server]
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
    remaining = curve.shape[1] - 1
    for t in range(last, -1, -1):
        if best[t, remaining] == best[t + 1, remaining]:
            continue
        for e in range(1, min(reach[t], remaining) + 1):
            if best[t, remaining - e] + curve[t, e] == best[t + 1, remaining]:
                split[t] = e
                remaining -= e
                break
