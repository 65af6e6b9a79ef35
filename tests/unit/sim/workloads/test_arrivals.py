"""When bids arrive."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from auctune.domain import InputError
from auctune.numerics.goodness_of_fit import autocorrelation
from auctune.numerics.rng import stream
from auctune.sim.traces.job_log import JobLog, make_log
from auctune.sim.workloads.arrival_statistics import compare_with_log, dispersion
from auctune.sim.workloads.arrivals import (
    PHILLY_2017,
    Burst,
    BurstyArrivals,
    BurstyParams,
    LogArrivals,
    PoissonArrivals,
    Scaling,
    Wave,
)
from auctune.sim.workloads.bursty_fit import FitParams, fit, least_squares
from support.thorough import drawn

DAY = 86_400.0


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


def test_a_rate_above_the_logs_takes_the_same_weekday_of_other_weeks_each_job_once() -> None:
    # Week w has w + 1 jobs on its third day, in slot w; all other days are busy.
    third = [(7 * week + 2) * DAY + 600.0 * week for week in range(4) for _ in range(week + 1)]
    others = [day * DAY + 5.0 for day in range(28) if day % 7 != 2 for _ in range(50)]
    log = log_of(sorted(third + others))

    def counts(rate: float, scaling: Scaling = "superpose") -> list[int]:
        arrivals = LogArrivals(log, 9, rate / 144, scaling)
        slots = arrivals.draw(144, 600.0, stream(0)).slot.tolist()
        return [slots.count(slot) for slot in range(4)]

    # The window is of week 1; then weeks 2 and 3 follow, then week 0.
    assert counts(2) == [0, 2, 0, 0]
    assert counts(5) == [0, 2, 3, 0]
    assert counts(9) == [0, 2, 3, 4]
    assert counts(10) == [1, 2, 3, 4]
    assert counts(20) == [2, 4, 6, 8]
    assert counts(10, "repeat") == [0, 10, 0, 0]


def test_superposed_weeks_keep_the_dispersion_that_repeated_jobs_multiply() -> None:
    log = log_from(replace(PHILLY_2017, hourly=(1.0,) * 24), 70, 5)
    rate = 8 * len(log) / 70 / 144

    def mean_dispersion(scaling: Scaling) -> float:
        arrivals = [LogArrivals(log, day, rate, scaling) for day in range(7)]
        slots = [one.draw(144, 600.0, stream(1)).slot for one in arrivals]
        counts = [np.bincount(slot, minlength=144).astype(np.float64) for slot in slots]
        return float(np.mean([dispersion(of_day) for of_day in counts]))

    days = [log.window(day, 1).counts(144, 600.0).astype(np.float64) for day in range(70)]
    own = float(np.mean([dispersion(of_day) for of_day in days]))
    assert mean_dispersion("superpose") < 2 * own < 0.5 * mean_dispersion("repeat")


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


TENTHS = st.integers(-30, 30).map(lambda tenths: tenths / 10)


def log_from(params: BurstyParams, days: int, seed: int) -> JobLog:
    times = params.times(days * DAY, stream(seed, "log"))
    ones = np.ones(len(times))
    return make_log("made up", times, ones, ones, [""] * len(times), from_midnight=False)


def counts_of(params: BurstyParams, days: int, slot_seconds: float, seed: int = 0) -> np.ndarray:
    times = params.times(days * DAY, stream(seed, "counts"))
    slots = round(days * DAY / slot_seconds)
    return np.bincount((times // slot_seconds).astype(int), minlength=slots).astype(float)


def test_without_bursts_and_waves_arrivals_are_poisson() -> None:
    counts = counts_of(BurstyParams(2000.0), 60, 600.0)
    assert counts.mean() == pytest.approx(2000 / 144, rel=0.02)
    assert dispersion(counts) == pytest.approx(1, abs=0.08)


def test_quick_bursts_alone_are_dispersed_as_their_sizes_say() -> None:
    # A share b in geometric bursts of mean n: variance over mean is 1 + 2 b (n - 1).
    params = BurstyParams(3000.0, bursts=(Burst(0.5, 9.0, 5.0),))
    counts = counts_of(params, 120, 3600.0)
    assert counts.mean() == pytest.approx(125, rel=0.03)
    assert dispersion(counts) == pytest.approx(9.0, rel=0.12)


def test_a_wave_alone_is_dispersed_and_correlated_as_its_variance_says() -> None:
    # Counts of slots much shorter than the wave: 1 + mean (e^v - 1), and correlated accordingly.
    params = BurstyParams(7200.0, waves=(Wave(0.3, 7200.0),))
    counts = counts_of(params, 250, 600.0)
    excess = counts.mean() * np.expm1(0.3)
    assert dispersion(counts) == pytest.approx(1 + excess, rel=0.15)
    for lag in (6, 12):
        expected = counts.mean() * np.expm1(0.3 * np.exp(-lag / 12)) / (1 + excess)
        assert autocorrelation([counts], np.array([lag])) == pytest.approx(expected, abs=0.06)


def test_the_daily_curve_is_that_of_the_parameters() -> None:
    hourly = tuple(np.linspace(0.2, 1.8, 24).tolist())
    counts = counts_of(BurstyParams(5000.0, hourly), 60, 3600.0).reshape(60, 24).mean(axis=0)
    assert counts / counts.mean() == pytest.approx(hourly, abs=0.06)


def test_scaled_up_the_relative_variance_stays() -> None:
    params = BurstyParams(1440.0, bursts=(Burst(0.6, 20.0, 60.0),), waves=(Wave(0.2, 3600.0),))
    small, large = counts_of(params, 200, 3600.0), counts_of(params.scaled(5.0), 200, 3600.0)
    assert large.mean() == pytest.approx(5 * small.mean(), rel=0.05)

    def without_chance(counts: np.ndarray) -> float:
        return float((counts.var() - counts.mean()) / counts.mean() ** 2)

    assert without_chance(large) == pytest.approx(without_chance(small), rel=0.2)


@given(
    days=st.floats(0.01, 1.5),
    rate=st.floats(0.1, 30),
    slot_seconds=st.sampled_from([60.0, 600.0, 777.0]),
    seed=st.integers(0, 99),
)
@drawn(30)
def test_arrivals_lie_in_their_horizon_in_order_and_repeat(
    days: float, rate: float, slot_seconds: float, seed: int
) -> None:
    slots = max(1, int(days * DAY / slot_seconds))
    arrivals = BurstyArrivals(PHILLY_2017, rate)
    slot = arrivals.draw(slots, slot_seconds, stream(seed)).slot
    assert (np.diff(slot) >= 0).all()
    assert not len(slot) or (slot[0] >= 0 and slot[-1] < slots)
    assert np.array_equal(slot, arrivals.draw(slots, slot_seconds, stream(seed)).slot)


def test_a_rate_asked_for_is_met_over_many_days() -> None:
    arrived = BurstyArrivals(PHILLY_2017, 30.0).draw(144 * 400, 600.0, stream(1))
    assert len(arrived.slot) / (144 * 400) == pytest.approx(30.0, rel=0.15)


def test_a_fit_of_a_poisson_log_finds_next_to_no_burstiness() -> None:
    log = log_from(BurstyParams(1500.0), 28, 1)
    counts = counts_of(fit(log), 28, 600.0)
    assert counts.mean() == pytest.approx(1500 / 144, rel=0.05)
    assert dispersion(counts) < 1.3


@pytest.mark.slow
def test_a_fit_finds_the_dispersion_and_the_memory_of_what_made_the_log() -> None:
    hourly = 1 + 0.5 * np.sin(2 * np.pi * (np.arange(24) + 0.5) / 24)
    made_by = BurstyParams(
        1400.0,
        tuple(hourly.tolist()),
        waves=(Wave(0.3, 5400.0),),
        bursts=(Burst(0.6, 15.0, 120.0),),
    )
    found = fit(log_from(made_by, 60, 2))
    assert found.jobs_per_day == pytest.approx(1400, rel=0.15)
    assert found.hourly == pytest.approx(hourly, abs=0.25)
    for slot_seconds in (60.0, 600.0, 3600.0):
        wanted, made = (
            float(np.mean([dispersion(counts_of(p, 60, slot_seconds, s)) for s in range(4)]))
            for p in (made_by, found)
        )
        assert made == pytest.approx(wanted, rel=0.25)
    wanted, made = (
        float(autocorrelation([counts_of(p, 60, 600.0)], np.array([1]))[0])
        for p in (made_by, found)
    )
    assert made == pytest.approx(wanted, abs=0.1)


def test_a_fit_may_be_kept_from_bursts_or_waves() -> None:
    log = log_from(PHILLY_2017, 14, 3)
    assert fit(log, FitParams(wave_seconds=())).waves == ()
    assert fit(log, FitParams(burst_seconds=())).bursts == ()


def test_a_log_too_short_to_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"log: has \d+ jobs on 1 days; expected 100 jobs on 2"):
        fit(log_from(BurstyParams(500.0), 1, 0))


@given(
    rows=st.lists(st.lists(TENTHS, min_size=4, max_size=4), min_size=4, max_size=8),
    data=st.data(),
)
@drawn(60)
def test_least_squares_of_nothing_below_zero_is_as_good_as_scipys(
    rows: list[list[float]], data: st.DataObject
) -> None:
    shapes = np.array(rows)
    target = np.array(data.draw(st.lists(TENTHS, min_size=len(rows), max_size=len(rows))))
    found = least_squares(shapes, target)
    assert (found >= 0).all()
    _, best = nnls(shapes, target)
    assert np.linalg.norm(shapes @ found - target) == pytest.approx(best, abs=1e-6)


def test_likeness_of_a_log_to_what_made_it_is_within_the_range_of_runs() -> None:
    rows = compare_with_log(log_from(PHILLY_2017, 28, 5), PHILLY_2017, runs=15)
    names = [row.figure for row in rows]
    assert names[:2] == ["jobs a day", "dispersion, 1 min"]
    assert all(row.low <= row.high for row in rows)
    inside = sum(row.within for row in rows)
    assert inside >= len(rows) // 2
    poisson = compare_with_log(log_from(PHILLY_2017, 28, 5), BurstyParams(1375.0), runs=5)
    for row in poisson:
        if row.figure.startswith("dispersion"):
            assert row.high < row.observed / 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BurstyParams(0.0), "jobs_per_day: 0.0; expected jobs a day > 0"),
        (lambda: BurstyParams(1.0, (1.0,)), "hourly: has 1 factors; expected 24"),
        (lambda: BurstyParams(1.0, (2.0,) * 24), "hourly: sums to 48; expected factors of mean 1"),
        (lambda: BurstyParams(1.0, (-1.0, *[25 / 23] * 23)), r"hourly\[0\]: -1.0"),
        (lambda: Burst(1.1, 2.0, 1.0), r"share: 1.1; expected a share in \[0, 1\]"),
        (lambda: Burst(0.1, 0.5, 1.0), "mean_size: 0.5; expected a number of jobs >= 1"),
        (lambda: Wave(-0.1, 1.0), "variance: -0.1"),
        (
            lambda: BurstyParams(1.0, bursts=tuple(itertools.repeat(Burst(0.6, 2.0, 1.0), 2))),
            "bursts: share more than all jobs",
        ),
        (lambda: BurstyArrivals(PHILLY_2017, 0.0), "rate: 0.0; expected bids a slot > 0"),
    ],
)
def test_parameters_out_of_range_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=message):
        make()
