"""The account of a run, by hand."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.spot import (
    Ahap,
    InfeasibleAllocationError,
    InstanceStart,
    LinearScaling,
    Overhead,
    SpotAllocation,
    SpotJob,
    SpotMarket,
    SpotObservation,
    play,
    settle,
)
from auctune.spot.account import HeldInstances, job_constants

JOB = SpotJob(workload=8, deadline=4, n_max=4, value=40)
MARKET = SpotMarket(np.array([0.5, 0.25, 0.5, 0.5]), np.array([2, 4, 0, 1]))


@dataclass
class Script:
    """A policy that does what it is told, and remembers what it saw."""

    held: list[tuple[int, int]]
    seen: list[SpotObservation] = field(default_factory=list)
    name: str = "script"
    horizon: int = 0

    def start(self, job: SpotJob) -> "Script":
        return self

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        self.seen.append(observation)
        return SpotAllocation(*self.held[observation.slot])


def test_work_money_and_finish_by_hand() -> None:
    # 0.9 * 2, then 0.9 * 4, then 0.95 * 2; of the last 0.7, 2 GPUs need 0.35 of a slot.
    outcome = play(Script([(0, 2), (0, 4), (2, 0), (1, 1)]), JOB, MARKET)
    assert outcome.progress == pytest.approx((1.8, 5.4, 7.3, 9.3))
    assert outcome.slot_cost == pytest.approx(1.0 + 1.0 + 2.0 + 1.5)
    assert outcome.finish == pytest.approx(3.35)
    assert outcome.ending_cost == 0
    assert outcome.utility == pytest.approx(40 - 5.5)


def test_a_slot_s_overhead_comes_before_its_work() -> None:
    # A start takes a tenth of the slot; then 0.9 of work takes 0.9 of it.
    job = SpotJob(workload=0.9, deadline=2, value=5)
    assert settle(job, MARKET, [SpotAllocation(1, 0)]).finish == pytest.approx(1.0)
    assert settle(job, MARKET, [SpotAllocation(2, 0)]).finish == pytest.approx(0.1 + 0.45)


def test_what_is_left_ends_on_demand_after_the_deadline() -> None:
    outcome = play(Script([(0, 0), (0, 4), (0, 0), (0, 0)]), JOB, MARKET)
    # 4.4 is left, which 4 GPUs do in 4.4 / 3.6 slots.
    assert outcome.finish == pytest.approx(4 + 4.4 / 3.6)
    assert outcome.ending_cost == pytest.approx(4 * 4.4 / 3.6)
    assert outcome.value == pytest.approx(40 * (1 - (4.4 / 3.6) / 2))
    assert outcome.cost == pytest.approx(1.0 + 4 * 4.4 / 3.6)


def test_a_policy_sees_the_slot_and_its_own_past_and_is_left_alone_when_done() -> None:
    script = Script([(0, 2), (0, 4), (4, 0), (4, 0)])
    outcome = play(script, JOB, MARKET)
    assert [seen.slot for seen in script.seen] == [0, 1, 2]
    assert len(outcome.allocations) == 3
    last = script.seen[2]
    assert (last.price, last.available, last.available_before) == (0.5, 0, 4)
    assert last.progress == pytest.approx(5.4)
    assert last.cost == pytest.approx(2.0)
    assert last.last == SpotAllocation(0, 4)
    assert script.seen[0].available_before == 2
    assert script.seen[0].forecast is None


def test_an_allocation_that_may_not_be_is_an_error() -> None:
    with pytest.raises(InfeasibleAllocationError, match="slot 2"):
        play(Script([(0, 2), (0, 4), (0, 1), (0, 0)]), JOB, MARKET)


def test_a_market_that_ends_before_the_deadline_is_refused() -> None:
    with pytest.raises(InputError, match=r"^market"):
        play(Script([(0, 0)] * 4), JOB, MARKET.between(0, 3))


def test_a_policy_that_needs_a_forecast_says_so() -> None:
    with pytest.raises(InputError, match=r"^forecast"):
        play(Ahap(3, 1), JOB, MARKET)


def test_the_same_allocations_come_to_the_same() -> None:
    outcome = play(Script([(0, 2), (0, 4), (2, 0), (1, 1)]), JOB, MARKET)
    assert settle(JOB, MARKET, outcome.allocations) == outcome


H = replace(JOB, scaling=LinearScaling(2.0, 1.0))


@pytest.mark.parametrize(
    ("count", "last", "share"), [(3, 0, 0.8), (3, 2, 0.8), (2, 3, 0.9), (3, 3, 1.0)]
)
def test_by_total_a_change_costs_a_share_of_the_slot(count: int, last: int, share: float) -> None:
    held = HeldInstances(job_constants(replace(H, overhead=Overhead(0.8, 0.9)), 1.0))
    held.run_slot(SpotAllocation(0, last))
    # Those that are lost within a slot change nothing.
    held.lose_spot(last)
    assert held.run_slot(SpotAllocation(0, count)).share == share
    assert held.overtime_starts() == 0.0


def test_by_instance_only_those_that_are_started_lose_time() -> None:
    held = HeldInstances(job_constants(replace(H, overhead=InstanceStart(0.2)), 1.0))
    assert held.run_slot(SpotAllocation(0, 2)).share == pytest.approx(0.8)
    # One stays, one on-demand instance starts: H(1) = 3 of H(2) = 5 for a fifth of the slot.
    assert held.run_slot(SpotAllocation(1, 1)).share == pytest.approx(1 - 0.2 * (5 - 3) / 5)
    # Three join the on-demand instance that is held at the deadline.
    assert held.overtime_starts() == pytest.approx(0.2 * (9 - 3) / 9)


def test_by_instance_the_newest_are_preempted_and_what_replaces_them_starts() -> None:
    held = HeldInstances(job_constants(replace(JOB, overhead=InstanceStart(1.5)), 1.0))
    held.run_slot(SpotAllocation(0, 1))
    assert held.owed == 0.5
    held.run_slot(SpotAllocation(0, 3))
    assert held.owed == 1.0
    held.lose_spot(1)
    assert (held.last, held.owed) == (SpotAllocation(0, 2), 0.5)
    # The oldest works, another does from the middle of the slot on, the third is new.
    assert held.run_slot(SpotAllocation(0, 3)).work == pytest.approx(1.0 + 0.5)
    assert held.owed == 0.5


def test_by_instance_those_that_stay_finish_the_work_while_others_start() -> None:
    job = replace(JOB, workload=3.5, overhead=InstanceStart(0.5))
    held = [SpotAllocation(2, 0), SpotAllocation(4, 0)]
    # One unit is done in slot 0, 1 in the first half of slot 1; then four do the last 1.5.
    assert settle(job, MARKET, held).finish == pytest.approx(1 + 0.5 + 1.5 / 4)
    assert settle(replace(job, workload=1.5), MARKET, held).finish == pytest.approx(1.25)
