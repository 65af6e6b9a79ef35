"""What holds for every policy: constraints, the optimum above all, and the batch beside play."""

from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from auctune.spot import (
    IDLE,
    Ahap,
    InstanceStart,
    Overhead,
    Policy,
    Robust,
    SpotAllocation,
    SpotJob,
    SpotMarket,
    SpotObservation,
    offline_bound,
    offline_optimum,
    play,
    play_batch,
    settle,
)
from auctune.spot.grid import exact_grid
from support.spot_cases import (
    ahaps,
    any_forecasts,
    baselines,
    chain_forecasts,
    even_jobs,
    markets,
    perfect,
    policies,
    started_jobs,
    uneven_jobs,
)
from support.spot_oracle import Instances, all_held, best_value, exact, outcome, worth
from support.thorough import drawn


@dataclass(frozen=True)
class PlannedAnew:
    """A policy without a memory: a new run decides each slot."""

    policy: Policy
    name: str = "anew"
    horizon: int | None = None

    def start(self, job: SpotJob) -> "AnewRun":
        return AnewRun(self.policy, job)


@dataclass(frozen=True)
class AnewRun:
    """A job of `PlannedAnew`."""

    policy: Policy
    job: SpotJob

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        return self.policy.start(self.job).allocate(observation)


def by_instance(job: SpotJob) -> SpotJob:
    """The same with a start of half a slot."""
    return replace(job, overhead=InstanceStart(0.5))


long_jobs: st.SearchStrategy[SpotJob] = st.one_of(
    even_jobs(max_deadline=9), started_jobs(max_deadline=9), uneven_jobs(max_deadline=9)
)


@given(st.data())
@drawn(300)
def test_every_allocation_keeps_the_constraints_and_the_account_is_right(
    data: st.DataObject,
) -> None:
    job = data.draw(long_jobs)
    market = data.draw(markets(job.deadline))
    forecasts = data.draw(any_forecasts(job.deadline))
    result = play(data.draw(policies), job, market, forecasts)

    held = [(a.on_demand, a.spot) for a in result.allocations]
    for slot, pair in enumerate(held):
        # (5b) to (5e)
        assert pair in all_held(job, int(market.available[slot]))
    prices = market.price[: len(held)].tolist()
    done, cost, kept = outcome(job, prices, market.on_demand_price, held)
    assert result.slot_cost == pytest.approx(float(cost), abs=1e-9)
    assert result.progress[-1] == pytest.approx(float(done), abs=1e-9)
    # (5a): the work is done by T, in these slots or by the ending on N_max on-demand GPUs.
    rest = exact(job.workload) - done
    if float(rest) <= 1e-9 * job.workload:
        rest = Fraction(0)
    expected = worth(job, exact(market.on_demand_price), rest, kept) - cost
    assert result.utility == pytest.approx(float(expected), abs=1e-6)
    if result.finish <= job.deadline:
        assert float(rest) <= 1e-9 * job.workload
        assert len(held) - 1 < result.finish <= len(held)
        if isinstance(job.overhead, InstanceStart):
            assert_done_at(job, held, Fraction(result.finish))
    else:
        assert len(held) == job.deadline
        assert result.ending_cost > 0


def assert_done_at(job: SpotJob, held: list[tuple[int, int]], finish: Fraction) -> None:
    """All work is done at the end of `finish` slots, and not a moment earlier."""
    instances, moment = Instances(job, (0, 0)), Fraction(1, 10**6)
    before = sum((instances.run_slot(pair) for pair in held[:-1]), Fraction(0))
    within = finish - (len(held) - 1)
    done = before + deepcopy(instances).run_slot(held[-1], within)
    assert float(done) == pytest.approx(job.workload, abs=2e-9 * job.workload)
    if within > moment:
        earlier = before + instances.run_slot(held[-1], within - moment)
        assert float(earlier) < job.workload * (1 - 2e-9)


@given(st.data())
@drawn(60)
def test_the_offline_optimum_is_the_best_of_all_allocations(data: st.DataObject) -> None:
    job = data.draw(st.one_of(even_jobs(3, 3), started_jobs(3, 2), uneven_jobs(3)))
    market = data.draw(markets(job.deadline, most=3))
    best = best_value(job, market.price.tolist(), market.available.tolist(), market.on_demand_price)
    assert offline_optimum(job, market).utility == pytest.approx(float(best), abs=1e-9)
    assert offline_bound(job, market) >= float(best) - 1e-9


@given(st.data())
@drawn(100)
def test_both_accounts_agree_where_all_start_together_and_no_kind_changes(
    data: st.DataObject,
) -> None:
    count = data.draw(st.integers(1, 4))
    start = data.draw(st.sampled_from([0.0, 0.25, 0.5]))
    by_total = SpotJob(workload=9, deadline=6, n_max=count, overhead=Overhead(1 - start, 1.0))
    by_instance = replace(by_total, overhead=InstanceStart(start))
    kind = data.draw(st.sampled_from([(count, 0), (0, count)]))
    runs = data.draw(st.lists(st.booleans(), min_size=6, max_size=6))
    held = [SpotAllocation(*kind) if runs_now else IDLE for runs_now in runs]
    market = SpotMarket(np.full(6, 0.5), np.full(6, 4))
    one, other = settle(by_total, market, held), settle(by_instance, market, held)
    assert one.progress == pytest.approx(other.progress)
    assert one.slot_cost == other.slot_cost
    if one.ending_cost == 0:
        assert one.finish == pytest.approx(other.finish)


@given(st.data())
@drawn(200)
def test_no_policy_beats_the_offline_optimum(data: st.DataObject) -> None:
    job = data.draw(long_jobs)
    market = data.draw(markets(job.deadline))
    forecasts = data.draw(any_forecasts(job.deadline))
    utility = play(data.draw(policies), job, market, forecasts).utility
    # Work within the tolerance of the workload counts as all of it.
    assert utility <= offline_optimum(job, market).utility + 1e-7


@given(st.data())
@drawn(150)
def test_with_all_foreseen_and_the_threshold_off_ahap_is_optimal(data: st.DataObject) -> None:
    job = data.draw(st.one_of(even_jobs(9, 6), started_jobs(9, 6)))
    assert exact_grid(job) is not None
    market = data.draw(markets(job.deadline))
    policy = Ahap(job.deadline, 1, 0.5, plan_always=True)
    utility = play(policy, job, market, perfect(market)).utility
    assert utility == pytest.approx(offline_optimum(job, market).utility, abs=1e-9)


@given(st.data())
@drawn(150)
def test_a_bound_like_theorem_1_ahap_is_behind_by_at_most_the_errors_of_its_windows(
    data: st.DataObject,
) -> None:
    """A bound of our own like Theorem 1 of Kong et al., whose formula the text used lacks.

    For c = 1, windows to the deadline and wrong prices alone.

    A window's plan is the best by the forecast, so it loses at most twice the most by which the
    forecast misjudges any plan, N_max times the errors of its prices; losses of slots add up.
    """
    job = data.draw(st.one_of(even_jobs(9, 6), started_jobs(9, 6)))
    assert exact_grid(job) is not None
    market = data.draw(markets(job.deadline))
    foreseen = perfect(market)
    noise = data.draw(st.lists(st.floats(-0.3, 0.3), min_size=job.deadline, max_size=job.deadline))
    # Row t is of the slots after t: each forecast is wrong in its own way.
    share = np.array(noise)[:, None]
    forecasts = replace(foreseen, price=np.maximum(foreseen.price * (1.0 + share), 0.0))
    policy = Ahap(job.deadline, 1, 0.5, plan_always=True)
    gap = offline_optimum(job, market).utility
    gap -= play(policy, job, market, forecasts).utility
    slots = [np.arange(job.deadline - 1 - slot) for slot in range(job.deadline)]
    errors = sum(
        float(np.abs(forecasts.price[slot, ahead] - foreseen.price[slot, ahead]).sum())
        for slot, ahead in enumerate(slots)
    )
    assert gap <= 2 * job.n_max * errors + 1e-9


@given(st.data())
@drawn(150)
def test_the_robust_policy_keeps_a_deadline_that_on_demand_gpus_keep(data: st.DataObject) -> None:
    job = data.draw(long_jobs)
    market = data.draw(markets(job.deadline))
    forecasts = data.draw(st.one_of(any_forecasts(job.deadline), chain_forecasts(market)))
    most = settle(job, market, [SpotAllocation(job.n_max, 0)] * job.deadline)
    assume(most.finish <= job.deadline)
    assert play(Robust(), job, market, forecasts).finish <= job.deadline


@given(st.data())
@drawn(80)
def test_a_plan_that_stands_is_the_one_that_would_be_made_again(data: st.DataObject) -> None:
    job = data.draw(st.one_of(even_jobs(8, 3), even_jobs(8, 3).map(by_instance)))
    market = data.draw(markets(job.deadline))
    forecasts = data.draw(chain_forecasts(market))
    made_again = play(PlannedAnew(Robust(risk=1.0)), job, market, forecasts)
    assert play(Robust(risk=1.0), job, market, forecasts) == made_again


@given(st.data())
@drawn(150)
def test_the_batch_is_play_to_the_last_bit(data: st.DataObject) -> None:
    pool = data.draw(st.lists(st.one_of(ahaps(), baselines, policies), min_size=1, max_size=6))
    batch_jobs = data.draw(st.lists(long_jobs, min_size=1, max_size=3))
    their_markets = [data.draw(markets(job.deadline)) for job in batch_jobs]
    their_forecasts = [data.draw(any_forecasts(job.deadline)) for job in batch_jobs]
    batch = play_batch(pool, batch_jobs, their_markets, their_forecasts, num_threads=2)
    for j, job in enumerate(batch_jobs):
        for m, policy in enumerate(pool):
            single = play(policy, job, their_markets[j], their_forecasts[j])
            assert batch.value[j, m] == single.value
            assert batch.cost[j, m] == single.cost
            assert batch.finish[j, m] == single.finish
            assert batch.utility[j, m] == single.utility
            held = np.zeros((job.deadline, 2), dtype=np.int64)
            for slot, allocation in enumerate(single.allocations):
                held[slot] = allocation.on_demand, allocation.spot
            assert batch.held[j][m].tolist() == held.tolist()
