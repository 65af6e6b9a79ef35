"""Problem (7) of one job as whole numbers, and problem (2) of all of them; Pang et al. (TMC 2024).

Columns of a job, by slot t and site r: z server, g workers, y chunks trained, x chunks taken from
there, m >= x - y those of them that leave, e >= g - G z workers away from the server; u_t: it
finishes in slot t.

 maximize   sum f(t) u_t - sum (theta m + lambda e) alpha - sum (w g + s z) beta
 subject to (2a) sum over t of x = D_r sum of u,   sum over r of x = sum over r of y, in each slot
            (2b) P g >= E y,   (2c) sum over r of z <= 1,   g <= G sum over r of z
            (2d) sum of theta m + lambda e <= room,   (2e) sum of w g + s z <= free
            (2f) sum over r of y <= reach * sum over t' >= t of u,   and, to be close,
                 sum over tau <= t of y >= D * sum over t' <= t of u

Which chunk goes where does not matter: what leaves is as much as what arrives.
"""

from typing import NamedTuple

import numpy as np

from auctune.edge.arrays import Floats, Ints
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.offline.builder import ProgramBuilder
from auctune.edge.offline.limits import Limits
from auctune.edge.plan import EdgePlan
from auctune.edge.prices import EdgePrices
from auctune.edge.search.search import chunks_of, write_plan
from auctune.numerics.highs import INFINITY


class SharedRows(NamedTuple):
    """Rows that all jobs share, by slot from 0 on."""

    traffic: list[int]  # [T]
    units: list[list[list[int]]]  # [T][R][K]


class JobColumns(NamedTuple):
    """Where a job's columns are; row 0 is its arrival."""

    finish: Ints  # [S]
    late: int  # finishes after the last row, worth the first of them; -1: none
    server: Ints  # [S, R]
    trained: Ints  # [S, R]
    taken: Ints  # [S, R]


def shared_rows(builder: ProgramBuilder, ledger: EdgeLedger) -> SharedRows:
    """Room and free units of all slots."""
    free, room = ledger.free(0), ledger.room(0)
    return SharedRows(
        [builder.row([], upper=float(left)) for left in room],
        [[[builder.row([], upper=float(k)) for k in site] for site in slot] for slot in free],
    )


def add_job(
    builder: ProgramBuilder,
    rows: SharedRows,
    ledger: EdgeLedger,
    job: EdgeJob,
    limits: Limits,
    last: int,
    prices: EdgePrices | None = None,
) -> JobColumns:
    """The columns and rows of one job.

    Args:
        builder: of the program.
        rows: what all jobs share.
        ledger: what others hold.
        job: which.
        limits: its own.
        last: no slot after it is looked at; what would finish later is one column that uses
            nothing.
        prices: from slot 0 on; none: all is free.
    """
    assert limits.earliest is not None
    market, first = ledger.market, job.arrival
    num_slots, num_sites = last + 1 - first, len(market.sites)
    shape, data = (num_slots, num_sites), chunks_of(ledger, job)
    worker, server = market.needs(job.worker), market.needs(job.server)
    alpha = np.zeros(num_slots) if prices is None else prices.alpha[first : last + 1]
    beta = 0.0 if prices is None else prices.beta[first : last + 1]
    worker_cost, server_cost = _times(beta, worker, shape), _times(beta, server, shape)
    values = np.array([job.value(first + row) for row in range(num_slots)])
    early = np.arange(first, last + 1) < limits.earliest
    u = builder.columns((num_slots,), values, np.where(early, 0.0, 1.0), whole=True)
    z = builder.columns(shape, -server_cost, limits.serves[:num_slots], whole=True)
    g = builder.columns(shape, -worker_cost, limits.most_workers[:num_slots], whole=True)
    y = builder.columns(shape, 0.0, limits.most_chunks[:num_slots], whole=True)
    x = builder.columns(shape, 0.0, data.astype(np.float64), whole=True)
    m = builder.columns(shape, -market.chunk_mb * alpha[:, None], INFINITY, whole=False)
    e = builder.columns(shape, -job.parameter_mb * alpha[:, None], INFINITY, whole=False)
    late = -1
    if last + 1 < market.slots:
        late = int(builder.columns((1,), job.value(last + 1), 1.0, whole=True)[0])
    builder.row([(u, 1.0), *([] if late < 0 else [(np.array([late]), 1.0)])], upper=1.0)
    for site in range(num_sites):
        builder.row([(x[:, site], 1.0), (u, -float(data[site]))], 0.0, 0.0)
    for row in range(num_slots):
        most = limits.most_workers[row].astype(np.float64)
        builder.row([(x[row], 1.0), (y[row], -1.0)], 0.0, 0.0)
        builder.row([(z[row], 1.0), (u[row:], -1.0)], upper=0.0)
        builder.row([(y[row], 1.0), (z[row], -float(limits.reach[row]))], upper=0.0)
        done = float(data.sum())
        builder.row([(y[: row + 1], 1.0), (u[: row + 1], -done)], lower=0.0)
        builder.add(rows.traffic[first + row], m[row], market.chunk_mb)
        builder.add(rows.traffic[first + row], e[row], job.parameter_mb)
        for site in range(num_sites):
            rate = job.chunks_per_worker_slot / job.epochs
            builder.row([(g[row, site], rate), (y[row, site], -1.0)], lower=-1e-7)
            builder.row([(g[row, site], 1.0), (z[row], -most[site])], upper=0.0)
            terms = [(e[row, site], 1.0), (g[row, site], -1.0), (z[row, site], most[site])]
            builder.row(terms, lower=0.0)
            terms = [(m[row, site], 1.0), (x[row, site], -1.0), (y[row, site], 1.0)]
            builder.row(terms, lower=0.0)
            for kind, units in enumerate(rows.units[first + row][site]):
                builder.add(units, g[row, site], float(worker[kind]))
                builder.add(units, z[row, site], float(server[kind]))
    return JobColumns(u, late, z, y, x)


def read_job(
    ledger: EdgeLedger, job: EdgeJob, columns: JobColumns, primal: Floats
) -> EdgePlan | None:
    """The plan of a solution; none if the job is not in it."""
    if primal[columns.finish].sum() < 0.5:
        return None
    trained = np.round(primal[columns.trained]).astype(np.int64)
    taken = np.round(primal[columns.taken]).astype(np.int64)
    server = primal[columns.server].argmax(axis=1)
    server[trained.sum(axis=1) == 0] = -1
    return write_plan(ledger, job, job.arrival, server, trained, taken)


def _times(beta: Floats | float, needs: Floats, shape: tuple[int, int]) -> Floats:
    return np.zeros(shape) if isinstance(beta, float) else beta @ needs
