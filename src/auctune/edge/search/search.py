"""The menu of one job: for every completion time the plan that was found, and what it costs.

 table -> a split of the chunks for each completion time -> a plan with the real data -> its cost

The menu does not depend on f, so the auction is truthful in f. Its lines are each cheaper than
those before them; lines that nobody could want are not built.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from auctune.edge.arrays import Floats, Ints
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.plan import EdgePlan, Move, SlotPlan
from auctune.edge.prices import EdgePricing, cost_of
from auctune.edge.search.forward import build_plan
from auctune.edge.search.problem import Question, ask
from auctune.edge.search.table import fill_table, read_split, slot_curves


class Offer(NamedTuple):
    """A plan and its cost at the prices of the moment, money."""

    plan: EdgePlan
    cost: float


def offers(
    ledger: EdgeLedger,
    pricing: EdgePricing,
    job: EdgeJob,
    first: int,
    data: Ints | None = None,
) -> Iterator[Offer]:
    """Plans by rising finish, each cheaper than those before; made as they are asked for.

    Args:
        ledger: what others hold.
        pricing: from that to prices.
        job: whose.
        first: the first slot that it may use.
        data: [R] chunks left of it; none: all.
    """
    if data is None:
        data = chunks_of(ledger, job)
    prices = pricing(ledger, first)
    question = ask(ledger, prices, job, data)
    curve, reach, best = tables(question)
    cheapest = math.inf
    for row in range(len(reach)):
        # What the table proposes in vain is proposed again with the next slot.
        if not best[row + 1, -1] < (math.inf if cheapest == math.inf else best[row, -1]):
            continue
        plan = _plan(ledger, job, question, curve, reach, best, row)
        if plan is None:
            continue
        cost = cost_of(ledger, prices, job, plan)
        if cost < cheapest:
            cheapest = cost
            yield Offer(plan, cost)
        if cost == 0:
            return


def tables(question: Question) -> tuple[Floats, Ints, Floats]:
    """Slot curves [S, D + 1], their reach [S], and the table [S + 1, D + 1]."""
    num_slots, total = len(question.room), int(question.data.sum())
    curve = np.empty((num_slots, total + 1))
    reach = np.empty(num_slots, dtype=np.int64)
    best = np.empty((num_slots + 1, total + 1))
    slot_curves(*question[1:], curve, reach)
    fill_table(curve, reach, best)
    return curve, reach, best


def chunks_of(ledger: EdgeLedger, job: EdgeJob) -> Ints:
    """[R] D_i^r."""
    return np.array([job.chunks.get(site, 0) for site in ledger.market.site_ids], dtype=np.int64)


def _plan(
    ledger: EdgeLedger,
    job: EdgeJob,
    question: Question,
    curve: Floats,
    reach: Ints,
    best: Floats,
    row: int,
) -> EdgePlan | None:
    num_slots, num_sites = row + 1, len(question.data)
    split = np.empty(num_slots, dtype=np.int64)
    read_split(curve, reach, best, row, split)
    servers = np.empty(num_slots, dtype=np.int64)
    trained = np.empty((num_slots, num_sites), dtype=np.int64)
    taken = np.empty((num_slots, num_sites), dtype=np.int64)
    cost = build_plan(*question[1:], split, servers, trained, taken)
    if cost == math.inf:
        return None
    return write_plan(ledger, job, question.first, servers, trained, taken)


def write_plan(
    ledger: EdgeLedger, job: EdgeJob, first: int, servers: Ints, trained: Ints, taken: Ints
) -> EdgePlan:
    """The plan of servers [S] (-1: none), and of chunks [S, R] by where they are trained and by
    where they lay."""
    ids = ledger.market.site_ids
    parts = []
    for row in np.flatnonzero(servers >= 0).tolist():
        here = np.flatnonzero(trained[row]).tolist()
        workers = {ids[site]: job.workers_for(int(trained[row, site])) for site in here}
        moves = _moves(ids, trained[row], taken[row])
        parts.append(SlotPlan(first + row, workers, ids[servers[row]], moves))
    return EdgePlan(tuple(parts))


def _moves(ids: tuple[str, ...], trained: Ints, taken: Ints) -> tuple[Move, ...]:
    """What stays, then what crosses: any pairing of givers and takers crosses as much."""
    staying = np.minimum(trained, taken)
    moves = [Move(ids[site], ids[site], int(staying[site])) for site in np.flatnonzero(staying)]
    give, take = (taken - staying).tolist(), (trained - staying).tolist()
    giver = taker = 0
    while giver < len(give) and taker < len(take):
        count = min(give[giver], take[taker])
        if count:
            moves.append(Move(ids[giver], ids[taker], count))
            give[giver] -= count
            take[taker] -= count
        giver += not give[giver]
        taker += not take[taker]
    return tuple(moves)
