"""Plans for the rest of a job, as when a site is lost: the rest of its data, at the other sites.

A job goes on from the checkpoint at the end of its last whole slot. What the lost site stored can
still be read, as from the distributed file system of Pang et al. (TMC 2024), section VI-A: its
chunks are trained elsewhere, and cross. Of the plans for the rest the one is taken whose utility
less cost at the prices of the moment is the largest, be it negative: prices only tell what others
want least, since the owner pays what was promised.
"""

from dataclasses import replace

from auctune.edge.checker import first_violation
from auctune.edge.decision import EdgePlan
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.prices import EdgePricing
from auctune.edge.search import offers
from auctune.edge.search.search import chunks_of
from auctune.numerics.arrays import Ints


def data_left(ledger: EdgeLedger, job: EdgeJob, plan: EdgePlan, now: int) -> Ints:
    """[R] chunks of a job that were not trained before slot `now`."""
    remaining = chunks_of(ledger, job)
    for part in plan.before(now).slots:
        for move in part.moves:
            remaining[ledger.index_of(move.origin)] -= move.chunks
    return remaining


def best_rest(
    ledger: EdgeLedger,
    pricing: EdgePricing,
    job: EdgeJob,
    data: Ints,
    now: int,
    last: int | None = None,
) -> EdgePlan | None:
    """Return the plan for the rest of a job that gains most; None if there is none.

    Args:
        ledger: what others hold.
        pricing: from that to prices.
        job: whose.
        data: [R] chunks remaining of it.
        now: the first slot that it may use.
        last: the last one; None: that of the market.
    """
    first = max(now, job.arrival)
    rest = replace(
        job, arrival=first, chunks=dict(zip(ledger.market.site_ids, data.tolist(), strict=True))
    )
    found = sorted(
        (
            one
            for one in offers(ledger, pricing, job, first, data)
            if last is None or one.finish <= last
        ),
        key=lambda offer: offer.cost - job.value(offer.finish),
    )
    plans = (offer.plan(ledger, job) for offer in found)
    return next((plan for plan in plans if first_violation(rest, plan, ledger) is None), None)
