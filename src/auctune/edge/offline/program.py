"""Programs over an edge instance: built block by block, a block of columns and rows a job."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from auctune.edge.decision import EdgePlan
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.prices import EdgePrices, PaperPrices
from auctune.edge.search.problem import Subproblem, make_subproblem
from auctune.edge.search.search import chunks_of, write_plan
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.highs import INFINITY, Program


class ProgramBuilder:
    """Collects a program that is to be maximized."""

    def __init__(self) -> None:
        self._cost: list[Floats] = []
        self._upper: list[Floats] = []
        self._whole: list[Floats] = []
        self._row_lower: list[float] = []
        self._row_upper: list[float] = []
        self._rows: list[Ints] = []
        self._columns: list[Ints] = []
        self._values: list[Floats] = []
        self.num_columns = 0

    @property
    def num_rows(self) -> int:
        return len(self._row_lower)

    def columns(
        self,
        shape: tuple[int, ...],
        cost: Floats | float,
        upper: Floats | Ints | float,
        *,
        whole: bool,
    ) -> Ints:
        """New columns from 0 to `upper`; their indices, in that shape."""
        count = int(np.prod(shape))
        self._cost.append(np.broadcast_to(cost, shape).astype(np.float64).ravel())
        self._upper.append(np.broadcast_to(upper, shape).astype(np.float64).ravel())
        self._whole.append(np.full(count, float(whole)))
        self.num_columns += count
        return np.arange(self.num_columns - count, self.num_columns).reshape(shape)

    def row(
        self,
        terms: Sequence[tuple[Ints, Floats | float]],
        lower: float = -INFINITY,
        upper: float = INFINITY,
    ) -> int:
        """Return a new row: the sum of coefficients times columns; its index."""
        index = self.num_rows
        self._row_lower.append(lower)
        self._row_upper.append(upper)
        for columns, values in terms:
            self.add(index, columns, values)
        return index

    def add(self, row: int, columns: Ints, values: Floats | float) -> None:
        """More terms of a row; what is there twice is added up."""
        flat = np.atleast_1d(columns).ravel()
        self._rows.append(np.full(len(flat), row, dtype=np.int64))
        self._columns.append(flat)
        self._values.append(np.broadcast_to(values, np.shape(columns)).astype(np.float64).ravel())

    def build(self) -> Program:
        """Return the program."""
        rows, columns = np.concatenate(self._rows), np.concatenate(self._columns)
        values = np.concatenate(self._values)
        keys, inverse = np.unique(columns * self.num_rows + rows, return_inverse=True)
        summed: Floats = np.zeros(len(keys))
        np.add.at(summed, inverse, values)
        counts = np.bincount(keys // self.num_rows, minlength=self.num_columns)
        whole = np.concatenate(self._whole) > 0
        return Program(
            cost=np.concatenate(self._cost),
            lower=np.zeros(self.num_columns),
            upper=np.concatenate(self._upper),
            row_lower=np.array(self._row_lower),
            row_upper=np.array(self._row_upper),
            starts=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
            rows=(keys % self.num_rows).astype(np.int32),
            values=summed,
            whole=whole if whole.any() else None,
            maximize=True,
        )


# What a job can reach at the very most: the numbers that cut the offline programs short.
#
# Everything here holds of every plan in an empty market, so a program that uses it as a bound
# keeps all its solutions.


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Limits of one job.

    Attributes:
        reach: [S] chunks in each slot from its arrival on, at the most.
        workers_per_chunk: at the least.
        most_workers: [S, R] that fit a site.
        most_chunks: [S, R] that they train.
        serves: [S, R] where a server fits.
        earliest: the first slot in which it can finish; None if there is none.
    """

    reach: Ints
    workers_per_chunk: float
    most_workers: Ints
    most_chunks: Ints
    serves: Floats
    earliest: int | None


def limits_of(ledger: EdgeLedger, job: EdgeJob) -> Limits:
    """Return the limits of a job in what is left of a market, from its arrival on."""
    data = chunks_of(ledger, job)
    subproblem = make_subproblem(ledger, PaperPrices()(ledger, job.arrival), job, data)
    top = int(subproblem.levels.max(initial=0))
    chunks, workers = subproblem.level_chunks, subproblem.level_workers
    rate = float((workers[1 : top + 1] / chunks[1 : top + 1]).min()) if top else float(workers[-1])
    reach = np.array([_reach(row, subproblem, rate, job) for row in range(len(subproblem.room))])
    done = np.flatnonzero(np.cumsum(reach) >= data.sum())
    return Limits(
        reach=reach,
        workers_per_chunk=rate,
        most_workers=workers[subproblem.levels],
        most_chunks=np.minimum(chunks[subproblem.levels], data.sum()),
        serves=(subproblem.levels_beside >= 0).astype(np.float64),
        earliest=job.arrival + int(done[0]) if len(done) else None,
    )


def _reach(row: int, subproblem: Subproblem, rate: float, job: EdgeJob) -> int:
    chunks, total = subproblem.level_chunks, int(subproblem.data.sum())
    alone = np.minimum(chunks[subproblem.levels[row]], total)
    beside = chunks[np.maximum(subproblem.levels_beside[row], 0)]
    away = alone.sum() - alone
    if job.parameter_mb > 0:
        # So many workers at most are away from the server.
        most = np.floor(subproblem.room[row] / job.parameter_mb * (1 + 1e-9)) / rate
        away = np.minimum(away, np.floor(most * (1 + 1e-9)))
    here = np.where(subproblem.levels_beside[row] >= 0, np.minimum(beside, total) + away, 0)
    return int(min(here.max(initial=0), total))


# Problem (7) of one job as whole numbers, and problem (2) of all of them; Pang et al. (TMC 2024).
#
# Columns of a job, by slot t and site r: z server, g workers, y chunks trained, x chunks taken
# from there, m >= x - y those of them that leave, e >= g - G z workers away from the server; u_t:
# it finishes in slot t.
#
#  maximize   sum f(t) u_t - sum (theta m + lambda e) alpha - sum (w g + s z) beta
#  subject to (2a) sum over t of x = D_r sum of u,   sum over r of x = sum over r of y, in each slot
#             (2b) P g >= E y,   (2c) sum over r of z <= 1,   g <= G sum over r of z
#             (2d) sum of theta m + lambda e <= room,   (2e) sum of w g + s z <= free
#             (2f) sum over r of y <= reach * sum over t' >= t of u,   and, to be close,
#                  sum over tau <= t of y >= D * sum over t' <= t of u
#
# Which chunk goes where does not matter: what leaves is as much as what arrives.


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
        [builder.row([], upper=float(mb)) for mb in room],
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
    """Return the columns and rows of one job.

    Args:
        builder: of the program.
        rows: what all jobs share.
        ledger: what others hold.
        job: which.
        limits: its own.
        last: no slot after it is looked at; what would finish later is one column that uses
            nothing.
        prices: from slot 0 on; None: all is free.
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
    """Return the plan of a solution; None if the job is not in it."""
    if primal[columns.finish].sum() < 0.5:
        return None
    trained = np.round(primal[columns.trained]).astype(np.int64)
    taken = np.round(primal[columns.taken]).astype(np.int64)
    server = primal[columns.server].argmax(axis=1)
    server[trained.sum(axis=1) == 0] = -1
    return write_plan(ledger, job, job.arrival, server, trained, taken)


def _times(beta: Floats | float, needs: Floats, shape: tuple[int, int]) -> Floats:
    return np.zeros(shape) if isinstance(beta, float) else beta @ needs
