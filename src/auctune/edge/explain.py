"""Why a bid got its answer: what its plan costs part by part, and what other finishes would cost.

cost = workers + server + parameters + chunks, summed over the slots (eq. 8)
"""

import math
from dataclasses import dataclass

from auctune.domain import InputError
from auctune.edge.checker import first_violation
from auctune.edge.decision import EdgeDecision, EdgeMenuLine, EdgePlan, SlotPlan
from auctune.edge.eris import Eris
from auctune.edge.job import EdgeJob
from auctune.edge.prices import EdgePrices


@dataclass(frozen=True, slots=True)
class SlotCost:
    """What a slot of a plan costs, money.

    Attributes:
        slot: which.
        workers: their units.
        server: its units.
        parameters: traffic of workers away from the server.
        chunks: traffic of chunks that cross sites.
    """

    slot: int
    workers: float
    server: float
    parameters: float
    chunks: float

    @property
    def total(self) -> float:
        return self.workers + self.server + self.parameters + self.chunks


@dataclass(frozen=True, slots=True)
class EdgeExplanation:
    """One decision, explained by the market as it was before it.

    Attributes:
        job: the job's id.
        slots: what the chosen plan costs in each of its slots; empty where there is none.
        utility: f of its finish; None where there is no plan.
        menu: what each finish would have cost.
        chosen: the line of the menu that gains most, be it nothing; none of an empty menu.
    """

    job: str
    slots: tuple[SlotCost, ...]
    utility: float | None
    menu: tuple[EdgeMenuLine, ...]
    chosen: EdgeMenuLine | None

    @property
    def cost(self) -> float:
        return math.fsum(slot.total for slot in self.slots)


def explain(eris: Eris, job: EdgeJob, decision: EdgeDecision | None, now: int) -> EdgeExplanation:
    """Return what a plan costs and what others would have cost; changes nothing.

    Args:
        eris: the market as it was before the bid.
        job: the job.
        decision: the answer; none, or a rejection: the best line of the menu is explained.
        now: the slot of the bid.

    Raises:
        InputError: if the job does not fit the market, or the plan is not one of the job's.
    """
    menu = eris.quote(job, now).lines
    chosen = max(menu, key=lambda line: job.value(line.finish) - float(line.price), default=None)
    plan = None if decision is None else decision.plan
    if plan is None and chosen is not None:
        plan = chosen.plan
    if plan is None:
        return EdgeExplanation(job.id, (), None, menu, None)
    broken = first_violation(job, plan, eris.ledger)
    if broken is not None:
        raise InputError("plan", str(broken), "a plan for this job in this market")
    slots = plan_costs(eris, job, plan)
    return EdgeExplanation(job.id, slots, job.value(plan.finish), menu, chosen)


def plan_costs(eris: Eris, job: EdgeJob, plan: EdgePlan) -> tuple[SlotCost, ...]:
    """Return what each slot of a plan costs at the prices of the moment."""
    prices = eris.prices(eris.ledger.begin)
    return tuple(_cost(eris, prices, job, part) for part in plan.slots)


def _cost(eris: Eris, prices: EdgePrices, job: EdgeJob, part: SlotPlan) -> SlotCost:
    market, ledger = eris.market, eris.ledger
    worker, server = market.needs(job.worker), market.needs(job.server)
    row = part.slot - prices.first
    alpha, beta = float(prices.alpha[row]), prices.beta[row]
    away = sum(count for site, count in part.workers.items() if site != part.server)
    parameters = job.parameter_mb * away
    traffic = part.traffic_mb(job, market)
    return SlotCost(
        part.slot,
        workers=math.fsum(
            count * float(worker @ beta[ledger.index_of(site)])
            for site, count in part.workers.items()
        ),
        server=float(server @ beta[ledger.index_of(part.server)]),
        parameters=alpha * parameters,
        chunks=alpha * (traffic - parameters),
    )
