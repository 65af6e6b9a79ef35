"""OD-Only, MSU and UP by hand, and the deadline that all three keep."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.spot import (
    InstanceStart,
    OnDemandOnly,
    Overhead,
    Policy,
    SpotAllocation,
    SpotFirst,
    SpotJob,
    SpotMarket,
    UniformProgress,
    play,
)
from auctune.spot.account import job_constants, state_of
from auctune.spot.deadline import steady_work
from support.spot_cases import even_jobs, markets, started_jobs, uneven_jobs
from support.spot_seen import seen
from support.thorough import drawn

JOB = SpotJob(workload=80, deadline=10, n_max=16)


def test_on_demand_only_holds_the_least_that_meets_the_deadline() -> None:
    market = SpotMarket(np.full(10, 0.1), np.full(10, 16))
    outcome = play(OnDemandOnly(), JOB, market)
    # 9 are needed for the start; 0.9 * 9 + 9 + 0.95 * 8 + 7 * 8 = 80.7 is enough.
    assert [held.on_demand for held in outcome.allocations] == [9, 9, *[8] * 8]
    assert all(held.spot == 0 for held in outcome.allocations)
    assert outcome.cost == 82
    assert outcome.finish <= 10


def test_msu_takes_all_spot_while_the_most_could_still_do_the_rest() -> None:
    run = SpotFirst().start(JOB)
    dear = seen(3, price=5.0, available=7, progress=0.0)
    assert run.allocate(dear) == SpotAllocation(0, 7)
    # From slot 5 on 16 GPUs do 14.4 + 4 * 16 = 78.4, less than 80.
    assert run.allocate(seen(4, available=0)) == SpotAllocation(16, 0)
    assert run.allocate(seen(4, available=0, progress=1.6)) == SpotAllocation(0, 0)
    assert run.allocate(seen(4, available=5)) == SpotAllocation(0, 5)


def test_msu_with_a_switch_turns_to_on_demand_in_the_last_slots_alone() -> None:
    run = SpotFirst(switch=2).start(JOB)
    assert run.allocate(seen(7, available=5)) == SpotAllocation(0, 5)
    assert run.allocate(seen(8, available=5)) == SpotAllocation(11, 5)
    assert SpotFirst(switch=0).start(JOB).allocate(seen(9, available=5)) == SpotAllocation(0, 5)


def test_up_takes_spot_and_no_on_demand_on_the_line() -> None:
    run = UniformProgress().start(JOB)
    # line(1) = 80 / 9.9 = 8.08
    assert run.allocate(seen(1, available=5, progress=8.1)) == SpotAllocation(0, 5)
    assert run.allocate(seen(1, available=0, progress=8.1)) == SpotAllocation(0, 0)


def test_up_regains_the_line_with_the_least_count() -> None:
    run = UniformProgress().start(JOB)
    # line(2) = 16.16; 10 GPUs from none do 9, 9 do 8.1.
    assert run.allocate(seen(1, available=4, progress=7.9)) == SpotAllocation(6, 4)
    assert run.allocate(seen(1, available=14, progress=7.9)) == SpotAllocation(0, 14)


def test_up_keeps_on_demand_until_its_lead_pays_for_restarts() -> None:
    held = SpotAllocation(8, 0)
    # 2 * 0.1 * 8 = 1.6 above the line of 8.08 at slot 1.
    short = seen(1, available=0, progress=9.6, last=held)
    ahead = seen(1, available=0, progress=9.7, last=held)
    assert UniformProgress().start(JOB).allocate(short) == SpotAllocation(7, 0)
    assert UniformProgress().start(JOB).allocate(ahead) == SpotAllocation(0, 0)
    assert UniformProgress(0.0).start(JOB).allocate(short) == SpotAllocation(0, 0)


def test_up_has_a_net_before_the_deadline() -> None:
    tight = SpotJob(workload=80, deadline=6, n_max=16)
    # On the line in slot 0, but 16 GPUs from slot 1 on do only 78.4.
    assert UniformProgress().start(tight).allocate(seen(0, available=1)) == SpotAllocation(15, 1)


def test_up_as_the_paper_words_it_adds_no_on_demand_to_spot_and_can_be_late() -> None:
    literal = UniformProgress(top_up=False, safety_net=False).start(JOB)
    assert literal.allocate(seen(1, available=4, progress=0.0)) == SpotAllocation(0, 4)
    assert literal.allocate(seen(1, available=0, progress=7.9)) == SpotAllocation(10, 0)
    tight = SpotJob(workload=80, deadline=6, n_max=16)
    scarce = SpotMarket(np.full(6, 0.3), np.full(6, 1))
    assert play(UniformProgress(top_up=False, safety_net=False), tight, scarce).finish > 6
    assert play(UniformProgress(top_up=False), tight, scarce).finish <= 6


@given(st.data())
@drawn(200)
def test_the_deadline_is_met_whenever_the_most_gpus_could_meet_it(data: st.DataObject) -> None:
    job = data.draw(st.one_of(even_jobs(9, 6), started_jobs(9, 6), uneven_jobs(9)))
    market = data.draw(markets(job.deadline))
    policies: list[Policy] = [
        OnDemandOnly(),
        SpotFirst(),
        UniformProgress(),
        UniformProgress(top_up=False),
    ]
    policy = data.draw(st.sampled_from(policies))
    terms = job_constants(job, 1.0)
    most = steady_work(terms, state_of(terms, job.n_max, 0), 0, job.deadline)
    if most >= job.workload:
        assert play(policy, job, market).finish <= job.deadline


def test_the_net_reserves_a_start_and_stays_on_on_demand() -> None:
    # Three slots of work in five; a start takes half a slot. Spot is there in every other slot.
    job = SpotJob(workload=3, deadline=5, n_max=1, overhead=InstanceStart(0.5))
    market = SpotMarket(np.full(5, 0.1), np.array([1, 0, 1, 1, 1]))
    held = play(SpotFirst(), job, market).allocations
    # Spot in slot 2 would leave 2 units of work for two slots, of which a start takes half of one.
    assert [(one.on_demand, one.spot) for one in held] == [(0, 1), (0, 0), *[(1, 0)] * 3]
    by_total = replace(job, overhead=Overhead(0.5, 0.5))
    assert play(SpotFirst(), by_total, market).allocations[2] == SpotAllocation(0, 1)


def test_a_hysteresis_below_zero_is_refused() -> None:
    with pytest.raises(InputError, match=r"^hysteresis"):
        UniformProgress(-1.0)
