"""The menu of one job: for every completion time the plan that was found, and what it costs.

 table -> a split of the chunks for each completion time -> a plan with the real data -> its cost

The menu does not depend on f, so the auction is truthful in f. Its lines are each cheaper than
those before them; lines that nobody could want are not built.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from auctune.edge.decision import EdgePlan, Move, SlotPlan
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.prices import EdgePricing
from auctune.edge.search.forward import build_plan, plan_cost
from auctune.edge.search.problem import (
    Subproblem,
    fill_table,
    make_subproblem,
    read_split,
    slot_curves,
)
from auctune.numerics.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A plan as arrays, and its cost at the prices of the moment.

    Attributes:
        finish: its last slot.
        cost: money.
        first: slot of row 0.
        servers: [S] site of the server, -1 for none.
        trained, taken: [S, R] chunks by where they are trained, and by where they lay.
    """

    finish: int
    cost: float
    first: int
    servers: Ints
    trained: Ints
    taken: Ints

    def plan(self, ledger: EdgeLedger, job: EdgeJob) -> EdgePlan:
        """Return the same plan, in words."""
        return write_plan(ledger, job, self.first, self.servers, self.trained, self.taken)


def offers(
    ledger: EdgeLedger,
    pricing: EdgePricing,
    job: EdgeJob,
    first: int,
    data: Ints | None = None,
    *,
    printed: bool = False,
) -> Iterator[Offer]:
    """Plans by rising finish, each cheaper than those before; made as they are asked for.

    Args:
        ledger: what others hold.
        pricing: from that to prices.
        job: whose.
        first: the first slot that it may use.
        data: [R] chunks remaining of it; None: all.
        printed: whether slots are filled by the paper's Algorithm 3 as printed.
    """
    if data is None:
        data = chunks_of(ledger, job)
    prices = pricing(ledger, first)
    subproblem = make_subproblem(ledger, prices, job, data)
    worker = prices.beta @ ledger.market.needs(job.worker)
    server = prices.beta @ ledger.market.needs(job.server)
    if printed:
        # Without our tie break, of which the paper knows nothing.
        subproblem = subproblem._replace(
            printed=True, worker_price=worker, server_price=server, traffic_price=prices.alpha
        )
    curve, reach, best = tables(subproblem)
    needs = _needed(subproblem)
    cheapest = math.inf
    for row in range(len(reach)):
        # What the table proposes in vain is proposed again with the next slot.
        if not best[row + 1, -1] < (math.inf if cheapest == math.inf else best[row, -1]):
            continue
        built = _build(subproblem, curve, reach, best, row)
        if built is None:
            continue
        cost = plan_cost(
            worker,
            server,
            prices.alpha,
            subproblem.chunk_mb,
            subproblem.parameter_mb,
            needs,
            *built,
        )
        if cost < cheapest:
            cheapest = cost
            last = int(np.flatnonzero(built[0] >= 0)[-1])
            yield Offer(first + last, cost, first, *built)
        if cost == 0:
            return


def tables(subproblem: Subproblem) -> tuple[Floats, Ints, Floats]:
    """Slot curves [S, D + 1], their reach [S], and the table [S + 1, D + 1]."""
    num_slots, total = len(subproblem.room), int(subproblem.data.sum())
    curve = np.empty((num_slots, total + 1))
    reach = np.empty(num_slots, dtype=np.int64)
    best = np.empty((num_slots + 1, total + 1))
    slot_curves(subproblem, curve, reach)
    fill_table(curve, reach, best)
    return curve, reach, best


def chunks_of(ledger: EdgeLedger, job: EdgeJob) -> Ints:
    """[R] D_i^r."""
    return np.array([job.chunks.get(site, 0) for site in ledger.market.site_ids], dtype=np.int64)


def _needed(subproblem: Subproblem) -> Ints:
    """[D + 1] workers for each number of chunks at one site."""
    chunks = np.arange(int(subproblem.data.sum()) + 1)
    needed: Ints = subproblem.level_workers[np.searchsorted(subproblem.level_chunks, chunks)]
    return needed


def _build(
    subproblem: Subproblem, curve: Floats, reach: Ints, best: Floats, row: int
) -> tuple[Ints, Ints, Ints] | None:
    """Servers [S], trained and taken [S, R] of the plan that ends by a row; None if it fails."""
    num_slots, num_sites = row + 1, len(subproblem.data)
    split = np.empty(num_slots, dtype=np.int64)
    read_split(curve, reach, best, row, split)
    servers = np.empty(num_slots, dtype=np.int64)
    trained = np.empty((num_slots, num_sites), dtype=np.int64)
    taken = np.empty((num_slots, num_sites), dtype=np.int64)
    done = build_plan(subproblem, split, servers, trained, taken)
    return (servers, trained, taken) if done else None


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
    """Return what stays, then what crosses: any pairing of givers and takers crosses as much."""
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
