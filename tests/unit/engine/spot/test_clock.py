"""What time it is in a job."""

from dataclasses import replace

import pytest

from auctune.engine.spot.clock import ModelClock, WallClock
from auctune.spot import InstanceStart, LinearScaling, Overhead, SpotJob

JOB = SpotJob(
    workload=30.0,
    deadline=5,
    n_max=4,
    scaling=LinearScaling(2.0, 1.0),
    overhead=Overhead(0.8, 0.9),
)


@pytest.fixture
def clock() -> ModelClock:
    return ModelClock(JOB, 300)


def test_time_passes_as_work_is_done(clock: ModelClock) -> None:
    clock.on_trained(10, 3)
    assert clock.now() == pytest.approx(1.0 / 7.0)
    clock.on_trained(0, 0)
    assert clock.now() == pytest.approx(1.0 / 7.0)


def test_overhead_takes_its_time(clock: ModelClock) -> None:
    clock.start(2.0)
    clock.on_overhead(0.2)
    assert clock.now() == pytest.approx(2.2)


def test_after_the_deadline_all_time_has_the_overhead(clock: ModelClock) -> None:
    clock.start(5.0)
    clock.on_trained(90, 4)
    assert clock.now() == pytest.approx(5.0 + 9.0 / (0.8 * 9.0))


def test_by_instance_time_after_the_deadline_is_as_before() -> None:
    clock = ModelClock(replace(JOB, overhead=InstanceStart(0.2)), 300)
    clock.start(5.0)
    clock.on_trained(90, 4)
    assert clock.now() == pytest.approx(5.0 + 9.0 / 9.0)


def test_idle_time_never_goes_back(clock: ModelClock) -> None:
    clock.start(2.5)
    clock.sleep_until(2.0)
    assert clock.now() == 2.5
    clock.sleep_until(3.0)
    assert clock.now() == 3.0


def test_real_time_goes_on_from_where_it_was() -> None:
    clock = WallClock(1000.0)
    clock.start(3.25)
    assert 3.25 <= clock.now() < 3.3
    assert 650 < clock.seconds_until(4.0) <= 750
    assert clock.seconds_until(3.0) == 0.0
    clock.sleep_until(3.0)
