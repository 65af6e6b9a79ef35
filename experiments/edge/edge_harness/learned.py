"""Prices that learn from earlier days: ways that were tried on the testbed's setting.

All draw days to come from the bids of earlier days: in each slot as many as those days brought
around it (Poisson), each a bid of theirs. No draw depends on the bid being priced.

`shadow_welfare`        prices are the mean over drawn days of the multipliers of capacity in the
                        linear program of the bound, over what is free
`displacement_welfare`  the price of a line of the menu is by how much it lowers the welfare that
                        drawn days can have, V(free) - V(free less its plan). V is a restricted
                        master: plans that Eris would offer to the drawn jobs, one of each job at
                        most, chosen by HiGHS

`promised_welfare` draws nothing: Eris, which promises a finish and not cells.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auctune.edge import (
    ByDuration,
    EdgeCommitment,
    EdgeDecision,
    EdgeJob,
    EdgeLedger,
    EdgeMarket,
    EdgeOffered,
    EdgePlan,
    EdgePrices,
    EdgePricing,
    EdgeReplanned,
    Eris,
    first_violation,
)
from auctune.edge.offline.bound import add_pooled_job
from auctune.edge.offline.program import (
    ProgramBuilder,
    add_job,
    limits_of,
    read_job,
    shared_rows,
)
from auctune.edge.replan import data_left
from auctune.edge.search import offers
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.highs import Program, SolveOptions, solve

# Slots ahead that a drawn day has: what a plan takes later is hardly worth anything.
_AHEAD = 16
# Bids within so many slots to each side tell the rate of a slot.
_WIDTH = 8
# Finishes so late that a job is hardly worth anything are one column.
_TAIL = 12
# A finish is looked at while it is worth this share of the earliest one.
_LEAST_WORTH = 0.03
_ROUNDING = 1e-9


class Days:
    """Days to come, drawn from the bids of earlier days.

    Args:
        days: bids of each.
        slots: of a day.
        seed: of the draws.
    """

    def __init__(self, days: Sequence[Sequence[EdgeJob]], slots: int, seed: int) -> None:
        self._bids = [job for day in days for job in day]
        self._slots = slots
        self._random = np.random.default_rng(seed)
        arrivals, counts = np.array([job.arrival for job in self._bids]), np.arange(slots)
        near = np.abs(arrivals[None, :] - counts[:, None]) <= _WIDTH
        first, last = np.maximum(counts - _WIDTH, 0), np.minimum(counts + _WIDTH, slots - 1)
        self._rate: Floats = near.sum(axis=1) / (last - first + 1) / len(days)

    def draw(self, job: EdgeJob, number: int) -> list[list[EdgeJob]]:
        """Return bids that come after a job's, in so many scenarios."""
        return [list(self._scenario(job.arrival)) for _ in range(number)]

    def _scenario(self, now: int) -> Iterator[EdgeJob]:
        for slot in range(now, min(now + 1 + _AHEAD, self._slots)):
            # Of other bids in its own slot half come after it.
            rate = self._rate[slot] / (2 if slot == now else 1)
            for index in range(self._random.poisson(rate)):
                job = self._bids[self._random.integers(len(self._bids))]
                yield replace(job, id=f"{slot}.{index}", arrival=slot)


class KnownDay:
    """The rest of the day as it comes: what no mechanism can know."""

    def __init__(self, jobs: Sequence[EdgeJob]) -> None:
        self._jobs = list(jobs)

    def draw(self, job: EdgeJob, number: int) -> list[list[EdgeJob]]:
        """Return the bids after a job's, those of its own slot included."""
        return [self._jobs[self._jobs.index(job) + 1 :]]


@dataclass(frozen=True, slots=True, eq=False)
class _Fixed:
    alpha: Floats
    beta: Floats

    def __call__(self, ledger: EdgeLedger, first: int = 0) -> EdgePrices:
        return EdgePrices(first, self.alpha[first:], self.beta[first:])


def shadow_welfare(
    market: EdgeMarket, jobs: Sequence[EdgeJob], days: Days, scenarios: int
) -> float:
    """Return the welfare at the mean multipliers of drawn days.

    Args:
        market: the supply, empty.
        jobs: bids by arrival.
        days: to draw from.
        scenarios: how many at each bid.
    """
    ledger, welfare = EdgeLedger(market), 0.0
    for job in jobs:
        found = [_multipliers(ledger, day) for day in days.draw(job, scenarios)]
        alpha = np.mean([one for one, _ in found], axis=0)
        beta = np.mean([one for _, one in found], axis=0)
        by_site = np.repeat(beta[:, None, :], len(market.sites), axis=1)
        welfare += _sell(ledger, _Fixed(alpha, by_site), job, None)
    return welfare


def _multipliers(ledger: EdgeLedger, jobs: Sequence[EdgeJob]) -> tuple[Floats, Floats]:
    """Traffic [T] and units [T, K] of the pooled program over what is free, money."""
    builder = ProgramBuilder()
    free = ledger.free(0).sum(axis=1)
    kinds = [[builder.row([], upper=float(units)) for units in slot] for slot in free]
    traffic = [builder.row([], upper=float(room)) for room in ledger.room(0)]
    for job in jobs:
        add_pooled_job(builder, ledger, job, _TAIL, kinds, traffic)
    if not builder.num_columns:
        return np.zeros(len(traffic)), np.zeros(free.shape)
    duals = solve(builder.build(), SolveOptions()).row_duals
    assert duals is not None
    return np.abs(duals[traffic]), np.abs(duals[np.array(kinds)])


def displacement_welfare(
    market: EdgeMarket,
    jobs: Sequence[EdgeJob],
    days: Days | KnownDay,
    pricing: EdgePricing,
    scenarios: int,
    average: Callable[..., Floats] = np.mean,
) -> float:
    """Return the welfare where each line of a menu costs what its plan displaces.

    Args:
        market: the supply, empty.
        jobs: bids by arrival.
        days: to draw from.
        pricing: by which plans are made.
        scenarios: how many at each bid.
        average: over scenarios, as `np.mean`.
    """
    ledger, welfare = EdgeLedger(market), 0.0
    for job in jobs:
        plans = [plan for plan, _, _ in _menu(ledger, pricing, job)]
        if not plans:
            continue
        ledgers = [ledger]
        for plan in plans:
            ledgers.append(ledger.copy())
            ledgers[-1].take(job, plan)
        displaced = [_displaced(ledgers, pricing, day) for day in days.draw(job, scenarios)]
        gains = np.array([job.value(plan.finish) for plan in plans])
        gains -= np.maximum(average(np.array(displaced), axis=0), 0.0)
        best = int(np.argmax(gains))
        if gains[best] > 0:
            ledger.take(job, plans[best])
            welfare += job.value(plans[best].finish)
    return welfare


def _menu(
    ledger: EdgeLedger, pricing: EdgePricing, job: EdgeJob
) -> Iterator[tuple[EdgePlan, float, float]]:
    """Plans, their worth and their cost, while they are worth anything."""
    for offer in offers(ledger, pricing, job, job.arrival):
        value = job.value(offer.finish)
        if value < _LEAST_WORTH * job.value(job.arrival):
            break
        yield offer.plan(ledger, job), value, offer.cost


# Plans of each drawn job, by what they take; of equal ones one is kept.
_Columns = dict[str, dict[bytes, tuple[float, Floats]]]


def _displaced(
    ledgers: Sequence[EdgeLedger], pricing: EdgePricing, day: Sequence[EdgeJob]
) -> list[float]:
    """Return by how much a day can have less welfare in each market than in the first one."""
    columns: _Columns = {}
    sold = []
    for ledger in ledgers:
        later = ledger.copy()
        sold.append(sum(_sell(later, pricing, job, columns) for job in day))
    # Where selling one after the other does better than the columns, it is a solution too.
    most = [max(found, _master(columns, one)) for found, one in zip(sold, ledgers, strict=True)]
    return [most[0] - one for one in most[1:]]


def _sell(
    ledger: EdgeLedger, pricing: EdgePricing, job: EdgeJob, columns: _Columns | None
) -> float:
    """Book the choice of a job at its arrival, return its worth, and collect its menu."""
    best, most, empty = None, 0.0, EdgeLedger(ledger.market)
    for plan, value, cost in _menu(ledger, pricing, job):
        if columns is not None:
            empty.take(job, plan)
            use = np.concatenate((empty.used.ravel(), empty.traffic))
            empty.give_back(job, plan)
            columns.setdefault(job.id, {})[use.tobytes()] = value, use
        if value - cost > most:
            best, most = plan, value - cost
    if best is None:
        return 0.0
    ledger.take(job, best)
    return job.value(best.finish)


def _master(columns: _Columns, ledger: EdgeLedger) -> float:
    """Return the most welfare with one column of each job at most, in what is left of a market."""
    free = np.concatenate((ledger.free(0).ravel(), ledger.room(0))) * (1 + _ROUNDING) + _ROUNDING
    fitting = [
        (job, value, use)
        for job, plans in enumerate(columns.values())
        for value, use in plans.values()
        if (use <= free).all()
    ]
    if not fitting:
        return 0.0
    owner: Ints = np.array([job for job, _, _ in fitting])
    values = np.array([value for _, value, _ in fitting])
    uses = np.array([use for _, _, use in fitting])
    most = sum(uses[owner == job].max(axis=0) for job in set(owner.tolist()))
    binding = uses[:, most > free]
    members = np.equal.outer(owner, np.unique(owner)).astype(np.float64)
    table = np.hstack((binding, members))
    upper = np.concatenate((free[most > free], np.ones(members.shape[1])))
    _, rows = np.nonzero(table)
    program = Program(
        cost=values,
        lower=np.zeros(len(values)),
        upper=np.ones(len(values)),
        row_lower=np.full(len(upper), -np.inf),
        row_upper=upper,
        starts=np.concatenate(([0], np.cumsum((table != 0).sum(axis=1)))).astype(np.int32),
        rows=rows.astype(np.int32),
        values=table[table != 0],
        whole=np.ones(len(values), dtype=np.bool_),
        maximize=True,
    )
    objective = solve(program).objective
    assert objective is not None
    return objective


def promised_welfare(
    market: EdgeMarket, jobs: Sequence[EdgeJob], history: Sequence[EdgeJob], time_limit: float
) -> float:
    """Return the welfare of Eris where what runs moves within its promised finishes.

    A bid that would finish earlier in an empty market has one line more: the earliest finish that
    an integer program of all that runs finds for it, at the price of the earliest line of its menu.

    Args:
        market: the supply, empty.
        jobs: bids by arrival.
        history: bids of a day before.
        time_limit: seconds for HiGHS at a bid.
    """
    eris, empty = Eris(market, history=history), EdgeLedger(market)
    running, welfare = list[EdgeCommitment](), 0.0
    for job in jobs:
        now = job.arrival
        running = [one for one in running if one.plan.finish >= now]
        decision, moved = eris.preview(job, now), None
        soonest = next(iter(offers(empty, eris.pricing, job, now)), None)
        line = next(iter(eris.quote(job, now).lines), None)
        if soonest and line and line.finish > soonest.finish:
            moved = _earlier(eris.ledger, running, job, line.finish, time_limit)
        if line and moved:
            *others, own = moved
            value = job.value(own.plan.finish)
            surplus = value - float(line.price)
            if surplus > (decision.surplus or 0.0):
                decision = EdgeDecision(
                    job.id,
                    admitted=True,
                    payment=line.price,
                    plan=own.plan,
                    utility=value,
                    surplus=surplus,
                )
                for one in running:
                    eris.apply(EdgeReplanned(one.job, now, one.plan.since(now), None))
                for one in others:
                    eris.apply(EdgeReplanned(one.job, now, EdgePlan(()), one.plan.since(now)))
                running = others
        eris.apply(EdgeOffered(job, decision, now))
        if decision.plan is not None:
            running.append(EdgeCommitment(job, decision.plan))
            welfare += decision.utility or 0.0
    return welfare


def _earlier(
    ledger: EdgeLedger,
    running: Sequence[EdgeCommitment],
    job: EdgeJob,
    last: int,
    time_limit: float,
) -> list[EdgeCommitment] | None:
    """Plans of what runs, within its finishes, and of a job before `last`; None if none is found.

    What runs has the finish of its plan as its promise: plans never finish later, be they replaced.
    """
    now, without = job.arrival, ledger.copy()
    for one in running:
        without.give_back(one.job, one.plan.since(now))
    builder = ProgramBuilder()
    rows = shared_rows(builder, without)
    # Each that runs is worth more than all that an earlier finish can be.
    kept = float(last - now + 2)
    rests = []
    for one in running:
        data = data_left(ledger, one.job, one.plan, now)
        chunks = dict(zip(ledger.market.site_ids, data.tolist(), strict=True))
        values = ByDuration((kept,) * (one.plan.finish - now + 1))
        rests.append(replace(one.job, arrival=now, chunks=chunks, utility=values))
    steps = ByDuration(tuple(float(steps) for steps in range(last - now + 1, 0, -1)))
    finishes = [*(one.plan.finish for one in running), last]
    planned = [*rests, replace(job, utility=steps)]
    columns = [
        add_job(builder, rows, without, one, limits_of(without, one), finish)
        for one, finish in zip(planned, finishes, strict=True)
    ]
    primal = solve(builder.build(), SolveOptions(time_limit=time_limit)).primal
    if primal is None:
        return None
    found = []
    past = [*(one.plan.before(now).slots for one in running), ()]
    whole = [*(one.job for one in running), job]
    for rest, its, before, owner in zip(planned, columns, past, whole, strict=True):
        plan = read_job(without, rest, its, primal)
        if plan is None or first_violation(rest, plan, without) is not None:
            return None
        without.take(rest, plan)
        found.append(EdgeCommitment(owner, EdgePlan((*before, *plan.slots))))
    return found if found[-1].plan.finish < last else None
