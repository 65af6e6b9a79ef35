"""What becomes of jobs whose site is lost: the rest of their data, at the other sites.

A job goes on from the checkpoint at the end of its last whole slot. What the lost site stored can
still be read, as from the distributed file system of Pang et al. (TMC 2024), section VI-A: its
chunks are trained elsewhere, and cross. Of the plans for the rest the one is taken whose utility
less cost at the prices of the moment is the largest, be it negative: prices only tell what others
want least, since the owner pays what was promised. A plan that does not train all data lacks a slot
that came to nothing, and is planned anew wherever it runs.
"""

from collections.abc import Sequence
from dataclasses import replace

from auctune.edge.checker import first_violation
from auctune.edge.decision import EdgeCommitment, EdgePlan, EdgeReplanned
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.prices import EdgePricing
from auctune.edge.search import offers
from auctune.edge.search.search import chunks_of
from auctune.numerics.arrays import Ints


def plan_anew(
    ledger: EdgeLedger,
    pricing: EdgePricing,
    site: str,
    now: int,
    running: Sequence[EdgeCommitment],
) -> list[EdgeReplanned]:
    """New plans of the jobs that a lost site was to serve, or did, booked; dearest-valued first.

    All of them give up their rests first, so that what is free is all there is.
    """
    hit = [one for one in running if _uses(one.plan.since(now), site) or _lacks(one)]
    hit.sort(key=lambda one: (-_worth(one, now), one.job.id))
    for one in hit:
        ledger.give_back(one.job, one.plan.since(now))
    outcome = []
    for one in hit:
        data = data_left(ledger, one.job, one.plan, now)
        found = best_rest(ledger, pricing, one.job, data, now)
        if found is not None:
            ledger.take(one.job, found)
        outcome.append(EdgeReplanned(one.job, now, one.plan.since(now), found))
    return outcome


def data_left(ledger: EdgeLedger, job: EdgeJob, plan: EdgePlan, now: int) -> Ints:
    """[R] chunks of a job that were not trained before slot `now`."""
    left = chunks_of(ledger, job)
    for part in plan.before(now).slots:
        for move in part.moves:
            left[ledger.index_of(move.origin)] -= move.chunks
    return left


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
        data: [R] chunks left of it.
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


def _lacks(one: EdgeCommitment) -> bool:
    return sum(part.chunks for part in one.plan.slots) < one.job.num_chunks


def _worth(one: EdgeCommitment, now: int) -> float:
    """By its last slot, which is not before `now`: of one that lacks a slot none may be left."""
    return one.job.value(max([now, *(part.slot for part in one.plan.slots)]))


def _uses(plan: EdgePlan, site: str) -> bool:
    return any(part.server == site or part.workers.get(site) for part in plan.slots)
