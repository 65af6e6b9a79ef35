"""The fit of bursty arrivals to a job log, by the method of moments.

1. The daily curve: counts by minute regressed on a few harmonics of the day. More would take the
   bursts of single days for habits.
2. How jobs that are u apart are correlated beyond that curve, at lags u from a minute to two days:
   g(u) = mean of N(t) N(t + u) / mean of rate(t) rate(t + u) - 1.
3. Waves: log(1 + g) at the long lags is a sum of exponentials with times from a ladder; variances
   by least squares, none below zero.
4. Bursts: what the waves leave of g at the short lags, likewise; it gives b (n - 1) for each time.
5. Which share b of the jobs is in bursts does not show in g: few large bursts correlate jobs as
   much as many small ones. It is the one whose trial runs come closest to the log in how many
   slots have how many jobs: the mean distance of log(1 + count), slots sorted by count.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auctune.domain import InputError
from auctune.numerics.rng import stream
from auctune.sim.traces.job_log import DAY_SECONDS, JobLog
from auctune.sim.workloads.arrivals import HOURS, STEP_SECONDS, Burst, BurstyParams, Wave

FloatArray = NDArray[np.float64]

_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_LEAST_JOBS = 100
# Two times within one step are a third of it apart on average.
_WITHIN_STEP = 1 / 3


@dataclass(frozen=True, slots=True)
class FitParams:
    """What a fit may use.

    Attributes:
        wave_seconds, burst_seconds: times that waves and bursts may have; None: no such thing.
        harmonics: of the daily curve.
        long_lag_seconds: from which on correlation is put down to waves alone.
        slot_seconds: of the slots whose jobs are counted for that.
        trials: runs for each share of jobs in bursts.
        seed: of these runs.
    """

    wave_seconds: tuple[float, ...] = (1200.0, 5400.0, 21_600.0, 172_800.0)
    burst_seconds: tuple[float, ...] = (60.0, 180.0, 600.0)
    harmonics: int = 2
    long_lag_seconds: float = 1800.0
    slot_seconds: float = 600.0
    trials: int = 3
    seed: int = 0


def fit(log: JobLog, params: FitParams | None = None) -> BurstyParams:
    """Return the process that is like a log.

    Args:
        log: its first and last day count as whole ones; best a window without gaps, of two weeks
            at least.
        params: what the fit may use.

    Raises:
        InputError: if the log is shorter than two days or has fewer than 100 jobs.
    """
    params = params or FitParams()
    days = log.num_days
    if days < 2 or len(log) < _LEAST_JOBS:
        found = f"has {len(log)} jobs on {days} days"
        raise InputError("log", found, f"{_LEAST_JOBS} jobs on 2 days at least")
    counts = log.counts(days * round(DAY_SECONDS / STEP_SECONDS), STEP_SECONDS).astype(np.float64)
    hourly = _hourly(counts, params.harmonics)
    lags, excess = _correlation(counts, hourly)
    waves, waved = _waves(lags, excess, params)
    bursts = _bursts(lags, excess - waved, counts.mean() / STEP_SECONDS, params)
    plain = BurstyParams(len(log) / days, tuple(hourly.tolist()), waves)
    return _with_share(plain, bursts, log, days, params)


def _hourly(counts: FloatArray, harmonics: int) -> FloatArray:
    """[24] factors of mean 1, from counts by step."""
    by_hour = counts.reshape(-1, HOURS, round(3600 / STEP_SECONDS)).sum(axis=(0, 2))
    angle = 2 * np.pi * (np.arange(HOURS) + 0.5) / HOURS
    waves = [f(k * angle) for k in range(1, harmonics + 1) for f in (np.cos, np.sin)]
    basis = np.stack([np.ones(HOURS), *waves], axis=1)
    smooth = basis @ np.linalg.lstsq(basis, by_hour, rcond=None)[0]
    # A curve through the depths of the night may undershoot.
    factors = np.maximum(smooth, 0.05 * by_hour.mean())
    hourly: FloatArray = factors / factors.mean()
    return hourly


def _correlation(counts: FloatArray, hourly: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lags in seconds, the first within a step, and g at each."""
    rate = counts.mean() * np.resize(np.repeat(hourly, round(3600 / STEP_SECONDS)), len(counts))
    longest = min(len(counts) // 2, round(2 * DAY_SECONDS / STEP_SECONDS))
    steps = np.unique(np.round(np.geomspace(1, longest, 40)).astype(np.int64))
    pairs = [(counts * (counts - 1)).mean() / (rate * rate).mean()]
    pairs += [
        (counts[:-k] * counts[k:]).mean() / (rate[:-k] * rate[k:]).mean() for k in steps.tolist()
    ]
    return STEP_SECONDS * np.concatenate([[_WITHIN_STEP], steps]), np.array(pairs) - 1


def _waves(
    lags: FloatArray, excess: FloatArray, params: FitParams
) -> tuple[tuple[Wave, ...], FloatArray]:
    """Return the waves, and their part of g at all lags."""
    times = np.array(params.wave_seconds)
    shapes = np.exp(-lags[:, None] / times)
    used = lags >= (params.long_lag_seconds if params.burst_seconds else 0)
    # Chance alone makes g of a quiet log a little negative, never -1.
    target = np.log1p(np.maximum(excess, -0.5))
    variances = least_squares(shapes[used], target[used])
    waves = tuple(
        Wave(variance, time)
        for variance, time in zip(variances.tolist(), times.tolist(), strict=True)
        if variance > 0
    )
    return waves, np.expm1(shapes @ variances)


def _bursts(
    lags: FloatArray, excess: FloatArray, rate: float, params: FitParams
) -> list[tuple[float, float]]:
    """(b (n - 1), tau) of each time with bursts; `rate` in jobs a second."""
    times = np.array(params.burst_seconds)
    used = lags <= (2 * params.long_lag_seconds if params.wave_seconds else lags[-1])
    # Short lags have values many times as large, but no more certain in proportion.
    weights = 1 / (1 + np.abs(excess[used]))
    shapes = np.exp(-lags[used, None] / times)
    heights = least_squares(weights[:, None] * shapes, weights * excess[used])
    strengths = heights * rate * times
    return [
        (strength, time)
        for strength, time in zip(strengths.tolist(), times.tolist(), strict=True)
        if strength > 0
    ]


def _with_share(
    plain: BurstyParams,
    bursts: Sequence[tuple[float, float]],
    log: JobLog,
    days: int,
    params: FitParams,
) -> BurstyParams:
    """Return the process with bursts that hold the share of jobs with which it fits best."""
    if not bursts:
        return plain
    slots = math.floor(days * DAY_SECONDS / params.slot_seconds)
    wanted = np.log1p(np.sort(log.counts(slots, params.slot_seconds)))

    def misfit(process: BurstyParams) -> float:
        rng = stream(params.seed, "share of bursts")
        distances = []
        for _ in range(params.trials):
            times = process.times(slots * params.slot_seconds, rng)
            counts = np.bincount((times / params.slot_seconds).astype(int), minlength=slots)
            distances.append(np.abs(np.log1p(np.sort(counts)) - wanted).mean())
        return float(np.mean(distances))

    return min((_in_bursts(plain, bursts, share) for share in _SHARES), key=misfit)


def _in_bursts(
    plain: BurstyParams, bursts: Sequence[tuple[float, float]], share: float
) -> BurstyParams:
    total = math.fsum(strength for strength, _ in bursts)
    made = []
    for strength, seconds in bursts:
        own = share * strength / total
        made.append(Burst(own, 1 + strength / own, seconds))
    return BurstyParams(plain.jobs_per_day, plain.hourly, plain.waves, tuple(made))


def least_squares(shapes: FloatArray, target: FloatArray) -> FloatArray:
    """x >= 0 with the least |shapes x - target|: [m, k], [m] to [k], k small.

    The best of all choices of columns that the unbounded solution makes positive.
    """
    num = shapes.shape[1]
    best, best_error = np.zeros(num), float(target @ target)
    for size in range(1, num + 1):
        for chosen in itertools.combinations(range(num), size):
            columns = shapes[:, chosen]
            solution = np.linalg.lstsq(columns, target, rcond=None)[0]
            error = float(((columns @ solution - target) ** 2).sum())
            if (solution >= 0).all() and error < best_error:
                best, best_error = np.zeros(num), error
                best[list(chosen)] = solution
    return best
