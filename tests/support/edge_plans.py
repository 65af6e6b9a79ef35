"""A market of two sites with one job and one plan that keeps every constraint; lost sites."""

from collections.abc import Sequence

from auctune.edge import (
    EdgeCommitment,
    EdgeJob,
    EdgeMarket,
    EdgePlan,
    EdgeReplanned,
    Eris,
    Logistic,
    Move,
    Site,
    SiteLost,
    SlotPlan,
)

MARKET = EdgeMarket(
    slots=5,
    sites=(Site("a", {"gpu": 2, "cpu": 8}), Site("b", {"gpu": 1, "cpu": 8})),
    traffic_mb_per_slot=20,
    chunk_mb=2,
    price_base={"data": 10, "gpu": 100},
)
JOB = EdgeJob(
    id="job",
    arrival=1,
    epochs=3,
    chunks={"a": 5, "b": 3},
    worker={"gpu": 1, "cpu": 2},
    server={"cpu": 1},
    chunks_per_worker_slot=6,  # two chunks, trained for three epochs
    parameter_mb=5,
    utility=Logistic(100, 2),
)
FIRST = SlotPlan(1, {"a": 2, "b": 1}, "a", (Move("a", "a", 4), Move("b", "b", 1)))
SECOND = SlotPlan(2, {"a": 2}, "b", (Move("a", "a", 1), Move("b", "a", 2)))
PLAN = EdgePlan((FIRST, SECOND))


def lose_site(
    eris: Eris, site: str, now: int, running: Sequence[EdgeCommitment]
) -> list[EdgeReplanned]:
    """Take a site off the market from a slot on, and plan anew the jobs that it was to serve.

    So do zones. Of a job whose last slot came to nothing the plan is without that slot.
    """
    eris.apply(SiteLost(site, now))
    hit = [one for one in running if _uses(one.plan.since(now), site) or _lacks_chunks(one)]
    for one in hit:
        eris.apply(EdgeReplanned(one.job, now, one.plan.since(now), None))
    changes = []
    for one in hit:
        past = EdgeCommitment(one.job, one.plan.before(now))
        found = eris.plan_rest(past, now, eris.ledger.end - 1)
        eris.apply(EdgeReplanned(one.job, now, EdgePlan(()), found))
        changes.append(EdgeReplanned(one.job, now, one.plan.since(now), found))
    return changes


def _uses(plan: EdgePlan, site: str) -> bool:
    return any(part.server == site or part.workers.get(site) for part in plan.slots)


def _lacks_chunks(one: EdgeCommitment) -> bool:
    return sum(part.chunks for part in one.plan.slots) < one.job.num_chunks
