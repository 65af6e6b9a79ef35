"""The best decisions, and the best plan of one job, that HiGHS finds for an instance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from auctune.domain import Reason
from auctune.domain.money import round_money
from auctune.edge.checker import first_violation
from auctune.edge.decision import EdgeDecision, EdgePlan
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.market import EdgeMarket
from auctune.edge.offline.bound import welfare_bound
from auctune.edge.offline.program import (
    JobColumns,
    ProgramBuilder,
    add_job,
    limits_of,
    read_job,
    shared_rows,
)
from auctune.edge.prices import EdgePricing, cost_of
from auctune.numerics.highs import SolveOptions, Status, solve


@dataclass(frozen=True, slots=True, eq=False)
class BestPlan:
    """The best plan of one job at the prices of a moment.

    Attributes:
        plan: the best one found; None where no plan gains anything.
        cost: of the plan, money.
        surplus: f less cost, money.
        bound: no plan has more surplus.
    """

    plan: EdgePlan | None
    cost: float
    surplus: float
    bound: float


@dataclass(frozen=True, slots=True, eq=False)
class EdgeOptimum:
    """The best decisions found for an instance.

    Attributes:
        decisions: one a job, in the order of the jobs; each pays all that it is worth.
        welfare: of these decisions, money.
        bound: no decisions have more, money.
        optimal: whether the search came to its end.
    """

    decisions: tuple[EdgeDecision, ...]
    welfare: float
    bound: float
    optimal: bool


def best_plan(
    ledger: EdgeLedger, pricing: EdgePricing, job: EdgeJob, options: SolveOptions | None = None
) -> BestPlan:
    """Problem (7): the plan of most surplus from the job's arrival on, by HiGHS."""
    limits = limits_of(ledger, job)
    if limits.earliest is None:
        return BestPlan(None, 0.0, 0.0, 0.0)
    builder, prices = ProgramBuilder(), pricing(ledger, 0)
    rows, last = shared_rows(builder, ledger), ledger.market.slots - 1
    columns = add_job(builder, rows, ledger, job, limits, last, prices)
    solved = solve(builder.build(), options)
    plan = None if solved.primal is None else read_job(ledger, job, columns, solved.primal)
    if plan is None:
        return BestPlan(None, 0.0, 0.0, max(0.0, solved.bound))
    cost = cost_of(ledger, prices, job, plan)
    return BestPlan(plan, cost, job.value(plan.finish) - cost, solved.bound)


def offline_optimum(
    market: EdgeMarket,
    jobs: Sequence[EdgeJob],
    options: SolveOptions | None = None,
    tail: int | None = None,
) -> EdgeOptimum:
    """Problem (2): the decisions of most welfare on all bids, by HiGHS.

    Args:
        market: the supply, empty.
        jobs: all bids.
        options: gap and limits, also of the bound's program where this one does not end; None: to
            the end.
        tail: slots after its arrival in which a job may run; later finishes count for the bound,
            and are not found. None: all slots.
    """
    options = options or SolveOptions()
    builder, ledger = ProgramBuilder(), EdgeLedger(market)
    rows = shared_rows(builder, ledger)
    columns: dict[str, JobColumns] = {}
    for job in jobs:
        limits = limits_of(ledger, job)
        last = market.slots - 1 if tail is None else min(market.slots - 1, job.arrival + tail)
        if limits.earliest is not None:
            last = max(last, limits.earliest)
            columns[job.id] = add_job(builder, rows, ledger, job, limits, last)
    bound, optimal, plans = 0.0, True, {}
    if columns:
        solved = solve(builder.build(), options)
        margin = options.tolerance * (builder.num_columns + 1) * max(j.num_chunks for j in jobs)
        bound, optimal = solved.bound + margin, solved.status is Status.OPTIMAL
        if not optimal:
            bound = min(bound, welfare_bound(market, tuple(jobs), search=options))
        if solved.primal is not None:
            found = {
                job.id: read_job(ledger, job, columns[job.id], solved.primal)
                for job in jobs
                if job.id in columns
            }
            plans = {name: plan for name, plan in found.items() if plan is not None}
    decisions = tuple(_decide(ledger, job, plans.get(job.id), job.id in columns) for job in jobs)
    welfare = math.fsum(decision.utility or 0.0 for decision in decisions)
    return EdgeOptimum(decisions, welfare, bound, optimal)


def _decide(
    ledger: EdgeLedger, job: EdgeJob, plan: EdgePlan | None, feasible: bool
) -> EdgeDecision:
    # What fits by the solver's tolerance only is not sold.
    if plan is None or first_violation(job, plan, ledger) is not None:
        reason = Reason.UNPROFITABLE if feasible else Reason.NO_FEASIBLE_SCHEDULE
        return EdgeDecision(job.id, admitted=False, reason=reason)
    ledger.take(job, plan)
    utility = job.value(plan.finish)
    return EdgeDecision(
        job.id,
        admitted=True,
        payment=round_money(utility),
        plan=plan,
        utility=utility,
        surplus=0.0,
    )
