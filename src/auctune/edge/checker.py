"""Whether a plan keeps constraints (2a) to (2i); Pang et al. (TMC 2024), section III-B, mended.

(2a) of each origin r, sum over t, r' of h^{rr'}(t) = D^r
(2b) P g^{r'}(t) >= E sum over r of h^{rr'}(t)
(2c) one server in each slot that has workers, none in others
(2d) theta * chunks that cross sites + lambda * workers away from the server <= B
(2e) workers and server fit their sites
(2f) the completion time is the last slot with workers
(2g) nothing before the arrival, nothing after the last slot
(2h) whole numbers >= 0
(2i) servers and workers stand, and chunks lie, at sites that there are
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from auctune.edge.decision import EdgePlan, SlotPlan
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.market import EdgeMarket
from auctune.numerics.arrays import FIT


@dataclass(frozen=True, slots=True)
class Violation:
    """The first constraint that does not hold.

    Attributes:
        constraint: "2a" to "2i".
        place: where.
        found: what is there.
        expected: what would have kept it.
    """

    constraint: str
    place: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"({self.constraint}) {self.place}: {self.found}; expected {self.expected}"


def first_violation(
    job: EdgeJob, plan: EdgePlan, ledger: EdgeLedger, finish: int | None = None
) -> Violation | None:
    """The first constraint that a plan breaks in what is left of a market; None if it keeps all.

    Args:
        job: whose plan it is.
        plan: the plan, not booked.
        ledger: what others hold.
        finish: the completion time that was promised; None: that of the plan.
    """
    market = ledger.market
    checks: tuple[Callable[[], Iterable[Violation]], ...] = (
        lambda: _known_sites(plan, market),
        lambda: _whole_numbers(plan),
        lambda: _within_time(job, plan, ledger),
        lambda: _servers(plan),
        lambda: _all_data(job, plan),
        lambda: _enough_workers(job, plan),
        lambda: _finish(plan, finish),
        lambda: _traffic(job, plan, ledger),
        lambda: _resources(job, plan, ledger),
    )
    return next((found for check in checks for found in check()), None)


def _at(part: SlotPlan) -> str:
    return f"slot {part.slot}"


def _known_sites(plan: EdgePlan, market: EdgeMarket) -> Iterable[Violation]:
    known = set(market.site_ids)
    for part in plan.slots:
        ends = [end for move in part.moves for end in (move.origin, move.destination)]
        for site in (part.server, *part.workers, *ends):
            if site not in known:
                yield Violation("2i", _at(part), f"{site!r} is no site", "the id of a site")


def _whole_numbers(plan: EdgePlan) -> Iterable[Violation]:
    for part in plan.slots:
        for count in (*part.workers.values(), *(move.chunks for move in part.moves)):
            if not isinstance(count, int) or count < 0:
                yield Violation("2h", _at(part), f"{count!r}", "a whole number >= 0")


def _within_time(job: EdgeJob, plan: EdgePlan, ledger: EdgeLedger) -> Iterable[Violation]:
    last, first = -1, max(job.arrival, ledger.begin)
    for part in plan.slots:
        if not first <= part.slot < ledger.end:
            expected = f"slots from {first} to {ledger.end - 1}"
            yield Violation("2g", _at(part), "is outside", expected)
        if part.slot <= last:
            yield Violation("2c", _at(part), "is there twice, or out of order", "rising slots")
        last = part.slot


def _servers(plan: EdgePlan) -> Iterable[Violation]:
    for part in plan.slots:
        if not sum(part.workers.values()):
            yield Violation("2c", _at(part), "a server without workers", "none, or both")


def _all_data(job: EdgeJob, plan: EdgePlan) -> Iterable[Violation]:
    taken: Counter[str] = Counter()
    for part in plan.slots:
        for move in part.moves:
            taken[move.origin] += move.chunks
    for site in {**job.chunks, **taken}:
        there = job.chunks.get(site, 0)
        if taken[site] != there:
            yield Violation("2a", f"site {site}", f"{taken[site]} chunks taken", f"{there}")


def _enough_workers(job: EdgeJob, plan: EdgePlan) -> Iterable[Violation]:
    for part in plan.slots:
        for site, chunks in part.chunks_by_site.items():
            needed, there = job.workers_for(chunks), part.workers.get(site, 0)
            if there < needed:
                place = f"{_at(part)}, site {site}"
                yield Violation("2b", place, f"{there} workers for {chunks} chunks", f"{needed}")


def _finish(plan: EdgePlan, finish: int | None) -> Iterable[Violation]:
    if not plan.slots:
        yield Violation("2f", "the plan", "has no slot", "one slot at least")
    elif finish is not None and finish != plan.finish:
        yield Violation("2f", "finish", f"{finish}", f"the last slot with workers, {plan.finish}")


def _traffic(job: EdgeJob, plan: EdgePlan, ledger: EdgeLedger) -> Iterable[Violation]:
    most = ledger.market.traffic_mb_per_slot
    for part in plan.slots:
        total = float(ledger.traffic[ledger.row(part.slot)]) + part.traffic_mb(job, ledger.market)
        if total > most * (1 + FIT):
            yield Violation("2d", _at(part), f"{total:.10g} MB cross sites", f"{most:.10g} at most")


def _resources(job: EdgeJob, plan: EdgePlan, ledger: EdgeLedger) -> Iterable[Violation]:
    market = ledger.market
    worker, server = market.needs(job.worker), market.needs(job.server)
    for part in plan.slots:
        row = ledger.row(part.slot)
        for name in dict.fromkeys((*part.workers, part.server)):
            site = ledger.index_of(name)
            wanted = part.workers.get(name, 0) * worker + (name == part.server) * server
            place = f"{_at(part)}, site {name}"
            stands = name == part.server or part.workers.get(name, 0) > 0
            if ledger.closed[row, site] and stands:
                yield Violation("2e", place, "is lost", "a site that is there")
            total = ledger.used[row, site] + wanted
            capacity = ledger.capacity[site]
            for kind in np.flatnonzero(total > capacity * (1 + FIT) + FIT):
                found = f"{total[kind]:.10g} units of {market.types[kind]}"
                yield Violation("2e", place, found, f"{capacity[kind]:.10g} at most")
