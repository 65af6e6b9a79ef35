"""When bids arrive: at a steady rate, as the jobs of a log did, or in bursts.

| object | bids |
| --- | --- |
| `PoissonArrivals` | independent of each other, the same rate in every slot |
| `LogArrivals` | those of a window of a job log, scaled to a rate |
| `BurstyArrivals` | in bursts and waves, as real logs have them |
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from auctune.domain import InputError
from auctune.domain.checks import check_finite, check_positive
from auctune.sim.traces.job_log import DAY_SECONDS, JobLog

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """The bids of a horizon, n of them.

    Attributes:
        slot: [n] of each, ascending.
        gpu_seconds: [n] that each took in the log that it comes from; None where there is none.
    """

    slot: IntArray
    gpu_seconds: FloatArray | None = None


class Arrivals(Protocol):
    """Says when bids arrive."""

    def draw(self, slots: int, slot_seconds: float, rng: np.random.Generator) -> Arrived:
        """The bids of a horizon that starts at midnight; the same with the same generator."""
        ...


@dataclass(frozen=True, slots=True)
class PoissonArrivals:
    """Independent arrivals.

    Attributes:
        rate: mean number a slot.
    """

    rate: float = 50.0

    def __post_init__(self) -> None:
        check_finite(self.rate, "rate", "bids a slot >= 0")

    def draw(self, slots: int, slot_seconds: float, rng: np.random.Generator) -> Arrived:
        counts = rng.poisson(self.rate, slots)
        return Arrived(np.repeat(np.arange(slots), counts))


Scaling = Literal["superpose", "repeat"]


@dataclass(frozen=True, slots=True, eq=False)
class LogArrivals:
    """The jobs of a log, each in the slot in which it was submitted.

    Fewer jobs than the window has are a random sample of them. More jobs come from the same
    window of other weeks, those that follow first and then those before, each on the same weekday
    and at the same time: the superposition of as many weeks as are needed, thinned to the rate.
    Independent weeks have variances that add up, so the dispersion of slot counts (variance over
    mean) stays about that of the log. `repeat` makes each job c bids instead, c = rate over the
    window's own, and multiplies the dispersion by c; so does `superpose` with all weeks of the log
    that are still too few.

    Attributes:
        log: the jobs.
        start_day: where the window starts, in days of the log.
        rate: mean number a slot over the window; None: as many as there are.
        scaling: how more bids are made than the window has jobs.
    """

    log: JobLog
    start_day: float = 0.0
    rate: float | None = None
    scaling: Scaling = "superpose"

    def __post_init__(self) -> None:
        if self.rate is not None:
            check_positive(self.rate, "rate", "bids a slot > 0")

    def draw(self, slots: int, slot_seconds: float, rng: np.random.Generator) -> Arrived:
        """Return the jobs of the window.

        Raises:
            InputError: if it goes beyond the log, or has no job at all.
        """
        windows = self.log.weeks(self.start_day, slots * slot_seconds / DAY_SECONDS)
        if not len(windows[0]):
            raise InputError("start_day", f"{self.start_day:g} starts no jobs", "days with jobs")
        wanted = len(windows[0]) if self.rate is None else self.rate * slots
        num_weeks = 1
        if self.scaling == "superpose":
            num_jobs = np.cumsum([len(window) for window in windows])
            num_weeks = min(int(np.searchsorted(num_jobs, wanted)) + 1, len(windows))
        windows = windows[:num_weeks]
        submit_s = np.concatenate([window.submit_s for window in windows])
        gpu_seconds = np.concatenate([window.gpus * window.duration_s for window in windows])
        order = np.argsort(submit_s, kind="stable")
        slot = np.minimum(np.floor(submit_s[order] / slot_seconds).astype(np.int64), slots - 1)
        copies = np.ones(len(order), dtype=np.int64)
        if self.rate is not None:
            copies = np.floor(wanted / len(order) + rng.random(len(order))).astype(np.int64)
        return Arrived(np.repeat(slot, copies), np.repeat(gpu_seconds[order], copies))


# Arrivals in bursts and waves: a doubly stochastic process, as bursty as real job logs.
#
# Jobs are submitted at the rate
#
# rate(t) = jobs a day * hourly(t) * exp(sum over k of (X_k(t) - v_k / 2))
#
# with a daily curve and waves X_k: Gaussian processes of mean 0 and covariance v_k exp(-u /
# tau_k), so that busy hours and busy weeks come and go (a log-Gaussian Cox process). Some share b
# of the jobs comes in bursts: one starts a burst of N, geometric with mean n, and the others
# follow within a few minutes, each after an exponential time of mean tau (a Neyman-Scott process):
# somebody submits a sweep. Two jobs that are u apart are then correlated as
#
# g(u) = exp(sum of v_k exp(-u / tau_k)) - 1 + sum over bursts of b (n - 1) / (rate tau) exp(-u /
# tau)
#
# beyond what independent ones with the daily curve would be; `bursty_fit` reads it off a log.

STEP_SECONDS = 60.0
HOURS = 24
# Of a burst that began that many mean times before the horizon, next to nothing is left.
_LEAD = 8.0


@dataclass(frozen=True, slots=True)
class Wave:
    """A slow change of the rate: the variance v of its logarithm, and its time tau in seconds."""

    variance: float
    seconds: float

    def __post_init__(self) -> None:
        check_finite(self.variance, "variance", "a variance >= 0")
        check_positive(self.seconds, "seconds", "seconds > 0")


@dataclass(frozen=True, slots=True)
class Burst:
    """Jobs that come together.

    Attributes:
        share: of all jobs that are in such bursts (b).
        mean_size: jobs of a burst on average, >= 1 (n).
        seconds: from the burst's start to each of its jobs on average (tau).
    """

    share: float
    mean_size: float
    seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InputError("share", f"{self.share!r}", "a share in [0, 1]")
        if not 1 <= self.mean_size < math.inf:
            raise InputError("mean_size", f"{self.mean_size!r}", "a number of jobs >= 1")
        check_positive(self.seconds, "seconds", "seconds > 0")


@dataclass(frozen=True, slots=True)
class BurstyParams:
    """A process of arrivals.

    Attributes:
        jobs_per_day: on average.
        hourly: [24] factors of the rate by hour of the day, of mean 1.
        waves, bursts: of which it is the sum.
    """

    jobs_per_day: float
    hourly: tuple[float, ...] = (1.0,) * HOURS
    waves: tuple[Wave, ...] = ()
    bursts: tuple[Burst, ...] = ()

    def __post_init__(self) -> None:
        check_positive(self.jobs_per_day, "jobs_per_day", "jobs a day > 0")
        if len(self.hourly) != HOURS:
            raise InputError("hourly", f"has {len(self.hourly)} factors", f"{HOURS}")
        for hour, factor in enumerate(self.hourly):
            check_finite(factor, f"hourly[{hour}]", "a factor >= 0")
        if not math.isclose(math.fsum(self.hourly), HOURS, rel_tol=1e-3):
            raise InputError("hourly", f"sums to {math.fsum(self.hourly):g}", "factors of mean 1")
        if math.fsum(burst.share for burst in self.bursts) > 1 + 1e-9:
            raise InputError("bursts", "share more than all jobs", "shares that sum to 1 at most")

    def scaled(self, factor: float) -> "BurstyParams":
        """Return the process with so many times as many jobs, whose relative ups and downs stay.

        Bursts grow or shrink with the rate: everybody submits so many times as much.
        """
        return replace(
            self,
            jobs_per_day=factor * self.jobs_per_day,
            bursts=tuple(
                replace(burst, mean_size=1 + factor * (burst.mean_size - 1))
                for burst in self.bursts
            ),
        )

    def times(self, seconds: float, rng: np.random.Generator) -> FloatArray:
        """Times of submission within a horizon that starts at midnight, ascending: seconds."""
        lead = math.ceil(_LEAD * max((b.seconds for b in self.bursts), default=0) / STEP_SECONDS)
        steps = lead + math.ceil(seconds / STEP_SECONDS)
        expected = self._expected(steps, lead, rng)
        alone = max(0.0, 1 - math.fsum(burst.share for burst in self.bursts))
        parts = [_spread(rng.poisson(alone * expected), rng)]
        for burst in self.bursts:
            starts = _spread(rng.poisson(burst.share / burst.mean_size * expected), rng)
            sizes = rng.geometric(1 / burst.mean_size, len(starts))
            jobs = np.repeat(starts, sizes)
            parts.append(jobs + rng.exponential(burst.seconds, len(jobs)))
        times = np.sort(np.concatenate(parts)) - lead * STEP_SECONDS
        inside: FloatArray = times[(times >= 0) & (times < seconds)]
        return inside

    def _expected(self, steps: int, lead: int, rng: np.random.Generator) -> FloatArray:
        """Jobs to be expected in each step, those of bursts counted at the burst's start."""
        hours = (np.arange(-lead, steps - lead) * STEP_SECONDS / 3600).astype(np.int64) % HOURS
        rate = self.jobs_per_day * STEP_SECONDS / DAY_SECONDS * np.array(self.hourly)[hours]
        for wave in self.waves:
            rate = rate * np.exp(_wave(wave, steps, rng) - wave.variance / 2)
        return rate


@dataclass(frozen=True, slots=True)
class BurstyArrivals:
    """Bids as such a process makes them.

    Attributes:
        params: the process.
        rate: mean number a slot, the process scaled to it; None: its own.
    """

    params: BurstyParams
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.rate is not None:
            check_positive(self.rate, "rate", "bids a slot > 0")

    def draw(self, slots: int, slot_seconds: float, rng: np.random.Generator) -> Arrived:
        params = self.params
        if self.rate is not None:
            params = params.scaled(self.rate * DAY_SECONDS / slot_seconds / params.jobs_per_day)
        slot = np.floor(params.times(slots * slot_seconds, rng) / slot_seconds).astype(np.int64)
        return Arrived(np.minimum(slot, slots - 1))


# A fit of four weeks of Microsoft's Philly log from 2017-10-09 (msr-fiddle/philly-traces, CC BY
# 4.0; Jeon et al., USENIX ATC 2019), for who has no log at hand. docs/reference/figures.md says how
# like the log it is.
PHILLY_2017 = BurstyParams(
    jobs_per_day=1375.0,
    hourly=(
        *(0.939, 0.936, 0.993, 1.109, 1.261, 1.411, 1.520, 1.552, 1.490, 1.337, 1.118, 0.874),
        *(0.653, 0.496, 0.430, 0.461, 0.571, 0.727, 0.889, 1.017, 1.087, 1.093, 1.050, 0.987),
    ),
    waves=(Wave(0.374, 1200.0), Wave(0.451, 5400.0), Wave(0.260, 172_800.0)),
    bursts=(Burst(0.007, 52.2, 60.0), Burst(0.565, 52.2, 180.0), Burst(0.128, 52.2, 600.0)),
)


def _spread(counts: NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
    """Times of so many jobs in each step, evenly spread over it: seconds."""
    step = np.repeat(np.arange(len(counts)), counts)
    times: FloatArray = (step + rng.random(len(step))) * STEP_SECONDS
    return times


def _wave(wave: Wave, steps: int, rng: np.random.Generator) -> FloatArray:
    """Return the Gaussian process at each step: an autoregression, started as it goes on."""
    kept = math.exp(-STEP_SECONDS / wave.seconds)
    deviation = math.sqrt(wave.variance)
    noise = rng.standard_normal(steps) * (deviation * math.sqrt(1 - kept * kept))
    level = deviation * rng.standard_normal()
    levels = np.empty(steps)
    for step, change in enumerate(noise.tolist()):
        level = kept * level + change
        levels[step] = level
    return levels
