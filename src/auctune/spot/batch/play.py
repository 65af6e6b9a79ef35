"""Many policies on many jobs: kernels where there are, single runs where there are none."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Floats, Ints
from auctune.spot.account import JobConstants, job_constants
from auctune.spot.batch.kernel import (
    MarketView,
    PolicyTable,
    Pool,
    encode,
    has_kernel,
    play_pool,
    within,
)
from auctune.spot.forecasts.forecast import ForecastTable
from auctune.spot.job import SpotJob
from auctune.spot.market import SpotMarket
from auctune.spot.play import play
from auctune.spot.policy import Policy
from auctune.spot.window.program import make_scratch


@dataclass(frozen=True, slots=True, eq=False)
class BatchOutcome:
    """What came of each job under each policy; j jobs, m policies.

    Attributes:
        value: [j, m] V(T).
        cost: [j, m] all that was paid.
        finish: [j, m] T, slots from each job's start.
        held: [j] of [m, t, 2] on-demand and spot GPUs by slot.
    """

    value: Floats
    cost: Floats
    finish: Floats
    held: tuple[Ints, ...]

    @property
    def utility(self) -> Floats:
        return self.value - self.cost


def play_batch(
    policies: Sequence[Policy],
    jobs: Sequence[SpotJob],
    markets: Sequence[SpotMarket],
    forecasts: Sequence[ForecastTable | None],
    *,
    num_threads: int | None = None,
) -> BatchOutcome:
    """Play every policy on every job, each job in its own market with its own forecasts.

    The result is that of `play` for each of them, to the last bit, and does not depend on the
    number of threads. Policies without a kernel are played one by one.

    Args:
        policies: the pool.
        jobs: what to run.
        markets: of each job, slot 0 its first.
        forecasts: of each job.
        num_threads: by default one for each processor.

    Raises:
        InputError: if lengths differ, a market is too short, or a forecast does not reach as far
            as a policy looks.
        InfeasibleAllocationError: if a policy without a kernel breaks a constraint.
    """
    if not len(jobs) == len(markets) == len(forecasts):
        raise InputError(
            "jobs", f"{len(jobs)}, {len(markets)} markets, {len(forecasts)} forecasts", "as many"
        )
    with_kernel = [m for m, policy in enumerate(policies) if has_kernel(policy)]
    table = encode([policies[m] for m in with_kernel])
    # A job that is played again and again is turned into arrays once.
    known = {
        (id(job), market.on_demand_price): job for job, market in zip(jobs, markets, strict=True)
    }
    terms = {key: job_constants(job, key[1]) for key, job in known.items()}

    def one(j: int) -> _JobOutcome:
        outcome = _empty(len(policies), jobs[j].deadline)
        if with_kernel:
            mine = terms[id(jobs[j]), markets[j].on_demand_price]
            _play_with_kernel(table, with_kernel, mine, jobs[j], markets[j], forecasts[j], outcome)
        for m, policy in enumerate(policies):
            if not has_kernel(policy):
                _play_single(m, policy, jobs[j], markets[j], forecasts[j], outcome)
        return outcome

    with ThreadPoolExecutor(num_threads or os.cpu_count()) as threads:
        outcomes = list(threads.map(one, range(len(jobs))))
    shape = (len(jobs), len(policies))
    return BatchOutcome(
        value=np.array([outcome.value for outcome in outcomes]).reshape(shape),
        cost=np.array([outcome.cost for outcome in outcomes]).reshape(shape),
        finish=np.array([outcome.finish for outcome in outcomes]).reshape(shape),
        held=tuple(outcome.held for outcome in outcomes),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _JobOutcome:
    value: Floats
    cost: Floats
    finish: Floats
    held: Ints


def _empty(num_policies: int, num_slots: int) -> _JobOutcome:
    return _JobOutcome(
        np.zeros(num_policies),
        np.zeros(num_policies),
        np.zeros(num_policies),
        np.zeros((num_policies, num_slots, 2), dtype=np.int64),
    )


def _play_with_kernel(
    table: PolicyTable,
    places: Sequence[int],
    terms: JobConstants,
    job: SpotJob,
    market: SpotMarket,
    forecasts: ForecastTable | None,
    outcome: _JobOutcome,
) -> None:
    table = within(table, job.deadline)
    widest, most_plans = max(int(table.window.max()), 1), max(int(table.commitment.max()), 1)
    num = len(places)
    pool = Pool(
        progress=np.zeros(num),
        slot_cost=np.zeros(num),
        finish=np.full(num, -1.0),
        held=np.zeros((num, job.deadline, 2), dtype=np.int64),
        plans=np.zeros((num, most_plans, widest, 2), dtype=np.int64),
        starting=np.zeros((num, 2, terms.n_max if terms.by_instance else 0)),
        owed=np.zeros(num),
    )
    view = _market_view(job, market, forecasts, widest)
    value, cost = np.zeros(num), np.zeros(num)
    play_pool(terms, view, table, make_scratch(terms, widest), pool, value, cost)
    outcome.value[places], outcome.cost[places] = value, cost
    outcome.finish[places], outcome.held[places] = pool.finish, pool.held


def _market_view(
    job: SpotJob, market: SpotMarket, forecasts: ForecastTable | None, window: int
) -> MarketView:
    market = market.between(0, job.deadline)
    price_ahead = np.zeros((job.deadline, window))
    available_ahead = np.zeros((job.deadline, window), dtype=np.int64)
    price_ahead[:, 0], available_ahead[:, 0] = market.price, market.available
    if window > 1:
        reach = 0 if forecasts is None else forecasts.price.shape[1]
        if forecasts is None or reach < window - 1 or len(forecasts.price) < job.deadline:
            found = "none is given" if forecasts is None else f"{reach} slots ahead"
            raise InputError("forecast", found, f"one of {window - 1} slots in each slot")
        price_ahead[:, 1:] = forecasts.price[: job.deadline, : window - 1]
        available_ahead[:, 1:] = forecasts.available[: job.deadline, : window - 1]
    return MarketView(market.price, market.available, price_ahead, available_ahead)


def _play_single(
    m: int,
    policy: Policy,
    job: SpotJob,
    market: SpotMarket,
    forecasts: ForecastTable | None,
    outcome: _JobOutcome,
) -> None:
    single = play(policy, job, market, forecasts)
    outcome.value[m], outcome.cost[m], outcome.finish[m] = single.value, single.cost, single.finish
    for slot, allocation in enumerate(single.allocations):
        outcome.held[m, slot] = allocation.on_demand, allocation.spot
