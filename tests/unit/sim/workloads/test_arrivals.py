"""Arrivals: seeded, at the rate asked for, and of a log each job in its slot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.numerics.rng import stream
from auctune.sim.traces.job_log import JobLog, make_log
from auctune.sim.workloads.arrivals import LogArrivals, PoissonArrivals


def log_of(times: list[float]) -> JobLog:
    number = list(range(1, len(times) + 1))
    return make_log("x", times, number, number, [""] * len(times), from_midnight=False)


def test_poisson_arrivals_are_as_dispersed_as_independence_makes_them() -> None:
    arrived = PoissonArrivals(40.0).draw(5000, 600.0, stream(1))
    counts = np.bincount(arrived.slot, minlength=5000)
    assert counts.mean() == pytest.approx(40, rel=0.02)
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.1)
    assert arrived.gpu_seconds is None


def test_a_log_gives_each_job_its_slot_and_its_gpu_time() -> None:
    log = log_of([86_400.0, 86_400 + 599.0, 86_400 + 600.0, 2 * 86_400 - 1.0, 2 * 86_400.0])
    arrived = LogArrivals(log, start_day=1).draw(144, 600.0, stream(0))
    assert arrived.slot.tolist() == [0, 0, 1, 143]
    assert arrived.gpu_seconds is not None
    assert arrived.gpu_seconds.tolist() == [1, 4, 9, 16]


@given(
    times=st.lists(st.integers(0, 86_399), min_size=1, max_size=50),
    each=st.integers(1, 4),
)
def test_a_whole_multiple_of_a_log_repeats_every_job_so_often(times: list[int], each: int) -> None:
    log = log_of([float(time) for time in times])
    rate = each * len(times) / 144
    once = LogArrivals(log).draw(144, 600.0, stream(0))
    more = LogArrivals(log, rate=rate).draw(144, 600.0, stream(0))
    counts = np.bincount(once.slot, minlength=144)
    # A multiple that is a rounding below a whole number may lose a job to chance.
    assert np.abs(np.bincount(more.slot, minlength=144) - each * counts).sum() <= 1


@pytest.mark.parametrize("rate", [0.7, 3.0, 12.5])
def test_a_rate_is_met_on_average_and_keeps_the_course_of_the_log(rate: float) -> None:
    times = stream(3).uniform(0, 86_400, 600) ** 1.05 % 86_400
    log = log_of(sorted(times.tolist()))
    arrivals = LogArrivals(log, rate=rate)
    counts = np.array(
        [np.bincount(arrivals.draw(144, 600.0, stream(s)).slot, minlength=144) for s in range(200)]
    )
    assert counts.mean() == pytest.approx(rate, rel=0.02)
    real = log.counts(144, 600.0)
    assert np.corrcoef(counts.mean(axis=0), real)[0, 1] > 0.97


def test_arrivals_of_one_seed_are_the_same() -> None:
    log = log_of(np.linspace(0, 86_000, 200).tolist())
    for arrivals in (PoissonArrivals(5.0), LogArrivals(log, rate=0.8)):
        first, again = (arrivals.draw(144, 600.0, stream(4, "bids")) for _ in range(2))
        assert np.array_equal(first.slot, again.slot)


def test_a_window_without_jobs_or_beyond_the_log_is_refused() -> None:
    log = log_of([10.0, 200_000.0])
    with pytest.raises(InputError, match=r"start_day: 1 starts no jobs; expected days with jobs"):
        LogArrivals(log, start_day=1).draw(144, 600.0, stream(0))
    with pytest.raises(InputError, match="a window within its 3 days"):
        LogArrivals(log, start_day=3).draw(144, 600.0, stream(0))


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_rates_that_are_none_are_refused(rate: float) -> None:
    with pytest.raises(InputError, match=r"rate: .*bids a slot"):
        PoissonArrivals(rate)
    with pytest.raises(InputError, match=r"rate: .*bids a slot"):
        LogArrivals(log_of([1.0]), rate=rate)
