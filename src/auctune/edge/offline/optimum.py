"""Bounds on the welfare of an instance, and the best decisions that HiGHS finds for it."""

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
from auctune.edge.offline.program import (
    JobColumns,
    ProgramBuilder,
    add_job,
    limits_of,
    read_job,
    shared_rows,
)
from auctune.edge.prices import EdgePricing, cost_of
from auctune.numerics.arrays import Floats
from auctune.numerics.highs import INFINITY, SolveOptions, Status, solve

# An upper bound on the welfare of an instance, small enough for a hundred jobs.
#
#  maximize   sum f_i(t) u_it
#  subject to sum over t of u_it <= 1
#             sum over tau <= t of a_i,tau,t = D_i u_it,   a_i,tau,t <= reach_i u_it
#             sum over i, t of (w_i^k n_i + s_i^k / reach_i) a_i,tau,t <= sum over r of C_r^k
#             sum over i of lambda_i (n_i sum over t of a_i,tau,t - G_i sum over t of u_it) <= B
#
# u_it: job i finishes in slot t; a: the chunks that it trains in slot tau then; n_i: workers a
# chunk at the least; G_i: workers that fit one site at the most, so that all others are away from
# the server. Sites are pooled and nothing is whole, so no decisions have more welfare. Finishes
# `tail` slots after the arrival and later are one column each, worth the first of them, that uses
# nothing. With whole u, so that no job has a share of several finishes, the bound is up to 7% lower
# on the testbed: of what one job can reach by itself the linear program knows nearly all, and of
# two that want the same slots only the mean.


TAIL = 30


def welfare_bound(
    market: EdgeMarket,
    jobs: tuple[EdgeJob, ...],
    tail: int = TAIL,
    search: SolveOptions | None = None,
) -> float:
    """No decisions on these jobs together have more welfare, money.

    Args:
        market: the supply, empty.
        jobs: all bids.
        tail: slots after which a finish is not looked at any closer, >= 1.
        search: gap and limits of the search for whole finishes; None: a linear program, in which a
            job may have shares of several.
    """
    if not jobs:
        return 0.0
    builder, ledger = ProgramBuilder(), EdgeLedger(market)
    pooled: Floats = ledger.capacity.sum(axis=0)
    kinds = [[builder.row([], upper=float(units)) for units in pooled] for _ in range(market.slots)]
    traffic = [builder.row([], upper=market.traffic_mb_per_slot) for _ in range(market.slots)]
    for job in jobs:
        add_pooled_job(builder, ledger, job, tail, kinds, traffic, whole=search is not None)
    if not builder.num_columns:
        return 0.0
    solved = solve(builder.build(), search)
    assert search or solved.status is Status.OPTIMAL, solved.status
    # Columns between 0 and a few units, whose reduced costs may be wrong by the tolerance.
    margin = 1e-8 * (builder.num_columns + 1) * max(job.num_chunks for job in jobs)
    return solved.bound + margin


def add_pooled_job(
    builder: ProgramBuilder,
    ledger: EdgeLedger,
    job: EdgeJob,
    tail: int,
    kinds: list[list[int]],
    traffic: list[int],
    *,
    whole: bool = False,
) -> None:
    """Add a job to the pooled program: its columns, and its terms in the rows that all jobs share.

    Args:
        builder: of the program.
        ledger: what others hold.
        job: which.
        tail: slots after which a finish is one column.
        kinds: rows of the units of each type, [T][K].
        traffic: rows of the traffic, [T].
        whole: whether it has one finish, or shares of several.
    """
    market, limits = ledger.market, limits_of(ledger, job)
    if limits.earliest is None:
        return
    last = min(market.slots, job.arrival + tail)
    finishes = range(limits.earliest, last)
    late = max(last, limits.earliest)
    once = builder.row([], upper=1.0)
    if late < market.slots:
        builder.add(once, builder.columns((1,), job.value(late), 1.0, whole=whole), 1.0)
    use = market.needs(job.worker) * limits.workers_per_chunk
    server, reach = market.needs(job.server), max(1, int(limits.reach[0]))
    away = [builder.columns((1,), 0.0, INFINITY, whole=False) for _ in range(job.arrival, last)]
    count = [
        builder.row([(column, -1.0)], upper=0.0) if job.parameter_mb else -1 for column in away
    ]
    for finish in finishes:
        chosen = builder.columns((1,), job.value(finish), 1.0, whole=whole)
        builder.add(once, chosen, 1.0)
        trained = builder.columns((finish - job.arrival + 1,), 0.0, INFINITY, whole=False)
        builder.row([(trained, 1.0), (chosen, -float(job.num_chunks))], 0.0, 0.0)
        for row, column in enumerate(trained):
            builder.row([(column, 1.0), (chosen, -float(limits.reach[row]))], upper=0.0)
            for kind, units in zip(kinds[job.arrival + row], use + server / reach, strict=True):
                builder.add(kind, column, float(units))
            if job.parameter_mb:
                most = float(limits.most_workers[row].max())
                builder.add(count[row], column, limits.workers_per_chunk)
                builder.add(count[row], chosen, -most)
    if job.parameter_mb:
        for row, column in enumerate(away):
            builder.add(traffic[job.arrival + row], column, job.parameter_mb)


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
