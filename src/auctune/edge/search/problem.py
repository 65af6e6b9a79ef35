"""The search's question about one job, as arrays.

Shapes: S slots from the first possible one, R sites, K types, D chunks, J + 1 levels.

Workers are whole and a chunk is trained at one site in one slot, so a site is filled level by
level: level j stands for the least workers that train one more chunk than level j - 1 could, or,
where one worker trains several, for one more worker.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from auctune.edge.arrays import FIT, Floats, Ints
from auctune.edge.job import EdgeJob, workers_for
from auctune.edge.ledger import EdgeLedger
from auctune.edge.prices import EdgePrices

# A plan may cost this much more for a whole site, or all traffic, in a slot, if that takes less:
# of plans that are free, as all are while nothing is sold, the one that leaves most is best.
THRIFT = 1e-4


class Question(NamedTuple):
    """One job at the prices and in the room of a moment."""

    first: int  # the slot of row 0
    worker_price: Floats  # [S, R] money a worker
    server_price: Floats  # [S, R] money a server
    traffic_price: Floats  # [S] money a MB
    room: Floats  # [S] MB left
    chunk_mb: float
    parameter_mb: float
    level_workers: Ints  # [J + 1]
    level_chunks: Ints  # [J + 1]
    levels: Ints  # [S, R] the highest level that fits, without a server
    levels_beside: Ints  # [S, R] beside the server; -1 where that does not fit
    data: Ints  # [R] chunks left


def ask(ledger: EdgeLedger, prices: EdgePrices, job: EdgeJob, data: Ints) -> Question:
    """The question of a job of which `data` [R] chunks are left, from slot `prices.first` on."""
    market, first = ledger.market, prices.first
    worker, server = market.needs(job.worker), market.needs(job.server)
    free = ledger.free(first)
    level_workers, level_chunks = levels_of(job, int(data.sum()))
    shares = np.where(ledger.capacity > 0, ledger.capacity, 1.0)
    thrift = THRIFT / len(market.types) / shares
    beta = prices.beta + thrift
    beside = np.where(
        # A server that occupies nothing fits everywhere, but for a lost site.
        np.all(free * (1 + FIT) + FIT >= server, axis=2) & ~ledger.closed[first - ledger.begin :],
        _highest(free - server, worker, level_workers),
        -1,
    )
    return Question(
        first=first,
        worker_price=beta @ worker,
        server_price=beta @ server,
        traffic_price=prices.alpha + THRIFT / market.traffic_mb_per_slot,
        room=ledger.room(first),
        chunk_mb=market.chunk_mb,
        parameter_mb=job.parameter_mb,
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
