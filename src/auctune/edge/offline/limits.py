"""What a job can reach at the very most: the numbers that cut the offline programs short.

Everything here holds of every plan in an empty market, so a program that uses it as a bound keeps
all its solutions.
"""

from dataclasses import dataclass

import numpy as np

from auctune.edge.arrays import Floats, Ints
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.prices import PaperPrices
from auctune.edge.search.problem import Question, ask
from auctune.edge.search.search import chunks_of


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Of one job.

    Attributes:
        reach: [S] chunks in each slot from its arrival on, at the most.
        workers_per_chunk: at the least.
        most_workers: [S, R] that fit a site.
        most_chunks: [S, R] that they train.
        serves: [S, R] where a server fits.
        earliest: the first slot in which it can finish; none if there is none.
    """

    reach: Ints
    workers_per_chunk: float
    most_workers: Ints
    most_chunks: Ints
    serves: Floats
    earliest: int | None


def limits_of(ledger: EdgeLedger, job: EdgeJob) -> Limits:
    """The limits of a job in what is left of a market, from its arrival on."""
    data = chunks_of(ledger, job)
    question = ask(ledger, PaperPrices()(ledger, job.arrival), job, data)
    top = int(question.levels.max(initial=0))
    chunks, workers = question.level_chunks, question.level_workers
    rate = float((workers[1 : top + 1] / chunks[1 : top + 1]).min()) if top else float(workers[-1])
    reach = np.array([_reach(row, question, rate, job) for row in range(len(question.room))])
    done = np.flatnonzero(np.cumsum(reach) >= data.sum())
    return Limits(
        reach=reach,
        workers_per_chunk=rate,
        most_workers=workers[question.levels],
        most_chunks=np.minimum(chunks[question.levels], data.sum()),
        serves=(question.levels_beside >= 0).astype(np.float64),
        earliest=job.arrival + int(done[0]) if len(done) else None,
    )


def _reach(row: int, question: Question, rate: float, job: EdgeJob) -> int:
    chunks, total = question.level_chunks, int(question.data.sum())
    alone = np.minimum(chunks[question.levels[row]], total)
    beside = chunks[np.maximum(question.levels_beside[row], 0)]
    away = alone.sum() - alone
    if job.parameter_mb > 0:
        # So many workers at most are away from the server.
        most = np.floor(question.room[row] / job.parameter_mb * (1 + 1e-9)) / rate
        away = np.minimum(away, np.floor(most * (1 + 1e-9)))
    here = np.where(question.levels_beside[row] >= 0, np.minimum(beside, total) + away, 0)
    return int(min(here.max(initial=0), total))
