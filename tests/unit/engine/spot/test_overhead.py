"""Overheads as they were."""

import pytest

from auctune.engine.spot.overhead import (
    MeasuredOverhead,
    ReadinessTracker,
    assumed_overhead,
    measure_overhead,
)
from auctune.engine.spot.state import SlotRecord
from auctune.spot import IDLE, InstanceStart, SpotAllocation, SpotJob, SpotObservation


def slot(number: int, count: int, lost: float | None) -> SlotRecord:
    observation = SpotObservation(number, 0.3, 9, 9, 1.0, 0.0, 0.0, IDLE, None)
    return SlotRecord(observation, SpotAllocation(0, count), 0.3 * count, rows=1, overhead=lost)


def test_the_share_lost_is_that_of_all_instances() -> None:
    times = ReadinessTracker(2.0, ["a", "b", "c", "d"])
    times.ready("a", 2.0)
    times.ready("b", 2.1)
    times.ready("c", 2.5)
    times.ready("c", 2.9)
    assert times.overhead(3.0, 3.0) == pytest.approx((0.0 + 0.1 + 0.5 + 1.0) / 4)


def test_an_instance_that_is_taken_away_counts_until_then() -> None:
    times = ReadinessTracker(0.0, ["a", "b", "c"])
    times.ready("a", 0.1)
    times.ready("b", 0.1)
    times.preempted("b", 0.5)
    times.preempted("c", 0.25)
    assert times.overhead(1.0, 1.0) == pytest.approx((0.1 + 0.1 + 0.25) / (1.0 + 0.5 + 0.25))


def test_nothing_held_is_nothing_lost() -> None:
    assert ReadinessTracker(0.0, []).overhead(1.0, 1.0) is None


def test_a_job_done_in_mid_slot_lost_as_much_of_it_as_if_it_had_gone_on() -> None:
    times = ReadinessTracker(4.0, ["a", "b"])
    times.ready("a", 4.1)
    times.ready("b", 4.3)
    assert times.overhead(5.0, observed=4.4) == pytest.approx(0.2)


def test_of_an_instance_that_was_not_ready_when_the_job_was_done_nothing_is_known() -> None:
    times = ReadinessTracker(4.0, ["a", "b"])
    times.ready("a", 4.1)
    assert times.overhead(5.0, observed=4.4) is None
    times.preempted("b", 4.3)
    assert times.overhead(5.0, observed=4.4) == pytest.approx((0.1 + 0.3) / 1.3)


def test_no_more_than_all_is_lost() -> None:
    times = ReadinessTracker(0.0, ["a"])
    times.ready("a", 1.02)
    assert times.overhead(1.0, observed=1.0) == 1.0


def test_overheads_are_told_apart_by_how_the_count_changed() -> None:
    slots = [
        slot(0, 2, 0.2),
        slot(1, 3, 0.1),
        slot(2, 3, 0.5),
        slot(3, 1, 0.04),
        slot(4, 0, None),
        slot(5, 1, None),
    ]
    measured = measure_overhead(slots)
    assert (measured.num_grown, measured.num_shrunk) == (2, 1)
    assert measured.mu1 == pytest.approx(0.85)
    assert measured.mu2 == pytest.approx(0.96)


def test_a_start_is_the_mean_of_the_instances_that_were_started() -> None:
    slots = [slot(0, 2, 0.2), slot(1, 3, 0.1), slot(2, 3, 0.0), slot(3, 3, 0.1), slot(4, 1, 0.0)]
    slots[2].preempted = 1
    measured = measure_overhead(slots)
    # Two, one, and one in place of the one that was preempted.
    assert measured.num_started == 4
    assert measured.start == pytest.approx((2 * 0.2 + 3 * 0.1 + 3 * 0.1) / 4)
    assert assumed_overhead(SpotJob(workload=1, deadline=1)) == {"mu1": 0.9, "mu2": 0.95}
    by_instance = SpotJob(workload=1, deadline=1, overhead=InstanceStart(0.2))
    assert assumed_overhead(by_instance) == {"start": 0.2}


def test_in_longer_slots_the_same_seconds_are_a_smaller_share() -> None:
    longer = MeasuredOverhead(0.8, None, 3, 0, 0.6, 4).at(60.0)
    assert longer.start == pytest.approx(0.01)
    assert longer.mu1 == pytest.approx(1 - 0.2 / 60)
    assert longer.mu2 is None
