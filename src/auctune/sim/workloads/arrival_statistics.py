"""Figures of a log and of arrival processes: dispersion, autocorrelation, daily curve.

The index of dispersion is the variance of counts by slot over their mean: 1 for Poisson arrivals,
whatever the slot.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from auctune.numerics.goodness_of_fit import GoodnessOfFit, autocorrelation, compare
from auctune.numerics.rng import stream
from auctune.sim.traces.job_log import DAY_SECONDS, JobLog
from auctune.sim.workloads.arrivals import HOURS, BurstyParams

FloatArray = NDArray[np.float64]

SLOT_LENGTHS = (60.0, 600.0, 3600.0, 21_600.0)
SLOT_SECONDS = 600.0
LAGS = (1, 6, 36, 144)


def compare_with_log(
    log: JobLog, process: BurstyParams, *, runs: int = 20, seed: int = 0
) -> tuple[GoodnessOfFit, ...]:
    """Return the figures of a log, its last day counted as a whole one, and of a process as long.

    The daily curve's figure is its distance, root mean square over 24 factors of mean 1, to the
    log's curve; for the log itself that of its odd days to its even days, halved: about what
    chance makes of it.

    Args:
        log: two days at least.
        process: often one that was fitted to it.
        runs: of the process.
        seed: of these.
    """
    days = log.num_days
    seconds = days * DAY_SECONDS
    curve = daily_curve(log.submit_s, days)
    real = figures(log.submit_s, days)
    real["daily curve: distance"] = _half_distance(log, days)
    rng = stream(seed, "likeness")
    made = []
    for _ in range(runs):
        times = process.times(seconds, rng)
        one = figures(times, days)
        one["daily curve: distance"] = _distance(daily_curve(times, days), curve)
        made.append(one)
    return compare(real, made)


def figures(times: FloatArray, days: int) -> dict[str, float]:
    """Figures of the times of submission within so many days, by name."""
    counts = {length: _counts(times, days, length) for length in SLOT_LENGTHS}
    made = {"jobs a day": len(times) / days}
    for length, by_slot in counts.items():
        made[f"dispersion, {_length(length)}"] = dispersion(by_slot)
    by_slot = counts[SLOT_SECONDS]
    made["empty slots"] = float((by_slot == 0).mean())
    made["largest slot"] = float(by_slot.max())
    correlations = autocorrelation([by_slot], np.array(LAGS)).tolist()
    for lag, value in zip(LAGS, correlations, strict=True):
        made[f"autocorrelation, {_length(lag * SLOT_SECONDS)}"] = value
    return made


def dispersion(counts: FloatArray) -> float:
    """Variance over mean; 0 without jobs."""
    return float(counts.var() / counts.mean()) if counts.any() else 0.0


def daily_curve(times: FloatArray, days: int) -> FloatArray:
    """Factors of the rate by hour of the day, of mean 1: [24]."""
    by_hour = _counts(times, days, 3600.0).reshape(-1, HOURS).sum(axis=0)
    curve: FloatArray = by_hour / max(by_hour.mean(), 1e-12)
    return curve


def _half_distance(log: JobLog, days: int) -> float:
    odd = np.floor(log.submit_s / DAY_SECONDS) % 2 == 1
    curves: Sequence[FloatArray] = [daily_curve(log.submit_s[part], days) for part in (odd, ~odd)]
    return _distance(*curves) / 2


def _distance(first: FloatArray, second: FloatArray) -> float:
    return math.sqrt(float(((first - second) ** 2).mean()))


def _counts(times: FloatArray, days: int, slot_seconds: float) -> FloatArray:
    slots = round(days * DAY_SECONDS / slot_seconds)
    slot = np.minimum(np.floor(times / slot_seconds).astype(np.int64), slots - 1)
    return np.bincount(slot, minlength=slots).astype(np.float64)


def _length(seconds: float) -> str:
    if seconds < 3600:
        return f"{seconds / 60:g} min"
    return f"{seconds / 3600:g} h"
