"""One job begun at many moments of some markets, and the comparison of policies on it."""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.numerics.arrays import Floats
from auctune.numerics.estimates import Estimate, mean_of, ratio_of
from auctune.numerics.rng import stream
from auctune.sim.spot.forecasts import (
    CachedForecasts,
    DescribedForecaster,
    ForecasterSpec,
    SharedForecasts,
)
from auctune.sim.spot.trace import ON_DEMAND_V100, join, read_trace
from auctune.spot import BatchOutcome, Policy, SpotJob, SpotMarket, offline_optimum, play_batch
from auctune.spot.forecasts import ForecastTable, stack_forecasts

# The benchmark market: real counts beside real prices, and jobs that start anywhere in them.
#
# The counts are those of 16 V100 instances over 16 days, which came without prices. Beside them is
# laid, in turn, the price of a one-GPU V100 instance in each of eight zones: from its beginning
# on, and again from each later day on that leaves no day used twice. That makes 8 x 5 markets of
# 789 half-hours. Hours of the day keep step; the years differ (2023 and 2020), so that the join
# says nothing about how price and count move together.


COUNTS = "sky_20230827_us-west-2a-v100-1gpu_16inst_probe.csv"
PRICES = "aws2020_*_v100-1gpu_price.csv"
CAP = 16
DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, eq=False)
class NamedMarket:
    """A market, and what it is made of.

    Attributes:
        name: the zone of its prices and their first day.
        market: all its slots.
    """

    name: str
    market: SpotMarket


@dataclass(frozen=True, slots=True)
class Start:
    """Where a job begins.

    Attributes:
        market: which of the markets.
        slot: the job's first slot in it.
    """

    market: int
    slot: int


def benchmark_markets(folder: Path, slot_seconds: float = 1800.0) -> tuple[NamedMarket, ...]:
    """Return all markets of the benchmark, zones by name, then by day.

    Args:
        folder: with the market files that `COUNTS` and `PRICES` name.
        slot_seconds: length of a slot.

    Raises:
        InputError: if a file is missing or wrong.
    """
    paths = sorted(folder.glob(PRICES))
    if not paths:
        raise InputError(str(folder), f"has no {PRICES}", "the files of the benchmark")
    counts = read_trace(folder / COUNTS)
    seconds = counts.end_s - float(counts.t_s[0])
    days = math.ceil(seconds / DAY_SECONDS)
    made = []
    for path in paths:
        prices = read_trace(path)
        zone = path.name.split("_")[1]
        last = prices.end_s - float(prices.t_s[0]) - seconds
        day = 0
        while day * DAY_SECONDS <= last:
            market = join(
                counts,
                prices,
                price_start_s=float(prices.t_s[0]) + day * DAY_SECONDS,
                on_demand_price=ON_DEMAND_V100,
                slot_seconds=slot_seconds,
            )
            made.append(NamedMarket(f"{zone}, day {day}", market))
            day += days
    return tuple(made)


def draw_starts(
    markets: Sequence[SpotMarket], num_jobs: int, num_slots: int, *, past: int = 96, seed: int = 0
) -> tuple[Start, ...]:
    """Independent starts: a market, then a slot of it, each with equal chances.

    Args:
        markets: to start in.
        num_jobs: how many starts; fewer are the first of more.
        num_slots: of a job, all within its market.
        past: slots that lie before every start, for forecasters to learn from.
        seed: of the draws.

    Raises:
        InputError: if a market is too short.
    """
    for index, market in enumerate(markets):
        if market.num_slots < past + num_slots:
            found = f"{market.num_slots} slots"
            raise InputError(f"markets[{index}]", found, f"{past} + {num_slots} at least")
    random = stream(seed, "starts", num_slots)
    starts = []
    for _ in range(num_jobs):
        chosen = int(random.integers(len(markets)))
        latest = markets[chosen].num_slots - num_slots
        starts.append(Start(chosen, int(random.integers(past, latest + 1))))
    return tuple(starts)


# Jobs of random size: those of Kong et al. (arXiv 2512.20967), Fig. 9, and their like.
#
# Fig. 9 (its constants are reconstructed): L uniform in [60, 100], N_min in {1, 2, 4}, N_max in
# {8, 12, 16}; as texts `workload=60-100`, `n_min=1,2,4` and `n_max=8,12,16`. Value goes with work.

# Sums of products of it stay numbers.
_MOST_WORK = 1e9

_FORMS = "workload=LOW-HIGH, n_min=A,B,... or n_max=A,B,..."


@dataclass(frozen=True, slots=True)
class Variation:
    """What differs from job to job.

    Attributes:
        workload: least and most, uniform between; None: the job's own.
        n_min, n_max: each as likely; None: the job's own.
    """

    workload: tuple[float, float] | None = None
    n_min: tuple[int, ...] = ()
    n_max: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.workload is not None:
            check_positive(self.workload[0], "workload", "a number > 0")
            if not self.workload[0] <= self.workload[1]:
                low, high = self.workload
                raise InputError("workload", f"{low:g}-{high:g}", "the less before the more")
            if self.workload[1] > _MOST_WORK:
                raise InputError("workload", f"{self.workload[1]:g}", f"at most {_MOST_WORK:.0f}")

    def draw(self, job: SpotJob, num_jobs: int, seed: int) -> tuple[SpotJob, ...]:
        """Jobs like one, fewer being the first of more.

        Raises:
            InputError: if some counts do not go together, or not with the job's scaling.
        """
        counts = [*product(self.n_min or (job.n_min,), self.n_max or (job.n_max,))]
        for n_min, n_max in counts:
            replace(job, n_min=n_min, n_max=n_max)
        random = stream(seed, "jobs")
        drawn = []
        for _ in range(num_jobs):
            share, which = random.uniform(), int(random.integers(len(counts)))
            low, high = self.workload or (job.workload, job.workload)
            # Tenths, so that works lie on a grid.
            workload = round(low + share * (high - low), 1) if low < high else low
            n_min, n_max = counts[which]
            value = job.value * workload / job.workload
            drawn.append(replace(job, workload=workload, value=value, n_min=n_min, n_max=n_max))
        return tuple(drawn)


def parse_variation(texts: Sequence[str], place: str) -> Variation:
    """Return the variation of texts such as `n_min=1,2,4`.

    Args:
        texts: one for each key.
        place: as errors name it.

    Raises:
        InputError: naming the place and the key.
    """
    found: dict[str, tuple[float, float] | tuple[int, ...]] = {}
    for text in texts:
        key, _, values = text.partition("=")
        if key in found:
            raise InputError(f"{place} {text}", f"{key} is there twice", "each key once")
        try:
            if key == "workload":
                low, high = values.split("-")
                found[key] = (float(low), float(high))
            elif key in ("n_min", "n_max"):
                found[key] = tuple(int(value) for value in values.split(","))
            else:
                raise ValueError
        except ValueError:
            raise InputError(place, f"{text!r}", _FORMS) from None
    try:
        return Variation(**found)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"{place} {error.place}", error.found, error.expected) from None


Advance = Callable[[], None]
"""Told of each job whose forecasts are made."""


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """What policies are tried on; j trials.

    Attributes:
        job: the same in all, or what they vary.
        starts: [j] where each begins.
        markets: [j] the slots of each, its first one 0.
        forecasts: [j] made in those slots, from all that was before; None where nobody looks.
        varied: [j] jobs with the same deadline; None: the job itself.
    """

    job: SpotJob
    starts: tuple[Start, ...]
    markets: tuple[SpotMarket, ...]
    forecasts: tuple[ForecastTable | None, ...]
    varied: tuple[SpotJob, ...] = ()

    @property
    def num_trials(self) -> int:
        return len(self.starts)

    @property
    def jobs(self) -> list[SpotJob]:
        return list(self.varied) or [self.job] * self.num_trials

    @property
    def highest_price(self) -> float:
        """p_max, that no spot price of any trial passes."""
        return max(float(market.price.max()) for market in self.markets)


def make_trials(
    job: SpotJob,
    markets: Sequence[SpotMarket],
    starts: Sequence[Start],
    forecaster_spec: ForecasterSpec,
    policies: Sequence[Policy],
    *,
    seed: int = 0,
    cache: Path | None = None,
    advance: Advance | None = None,
) -> Trials:
    """Cut the markets, and have forecasts made as far as the policies look.

    Args:
        job: to be tried.
        markets: all their slots.
        starts: where it is tried.
        forecaster_spec: how to forecast.
        policies: that will be tried.
        seed: of noise.
        cache: folder for the forecasts of those that are slow; None: they are not kept.
        advance: told after each trial's forecasts.

    Raises:
        InputError: if a market does not reach as far as the job, a forecaster is not there, or
            the cache cannot be written.
    """
    cut = [markets[start.market].between(start.slot, start.slot + job.deadline) for start in starts]
    horizon = widest_horizon(policies, job)
    forecasts: list[ForecastTable | None] = [None] * len(starts)
    if horizon:
        made = {
            number: _forecasts_of(forecaster_spec, markets[number], seed, horizon, cache)
            for number in sorted({start.market for start in starts})
        }
        for index, start in enumerate(starts):
            slots = range(start.slot, start.slot + job.deadline)
            forecasts[index] = stack_forecasts([made[start.market].at(slot) for slot in slots])
            if advance is not None:
                advance()
        for one in made.values():
            one.save()
    return Trials(job, tuple(starts), tuple(cut), tuple(forecasts))


def _forecasts_of(
    forecaster_spec: ForecasterSpec, market: SpotMarket, seed: int, horizon: int, cache: Path | None
) -> SharedForecasts:
    forecaster = forecaster_spec.forecaster(market, seed)
    # Who says what its forecasts depend on is slow.
    if cache is not None and isinstance(forecaster, DescribedForecaster):
        return CachedForecasts(forecaster, market, horizon, cache)
    return SharedForecasts(forecaster, market, horizon)


def widest_horizon(policies: Sequence[Policy], job: SpotJob) -> int:
    """Slots ahead that any of the policies may ask for."""
    last = job.deadline - 1
    return max(
        (last if policy.horizon is None else min(policy.horizon, last) for policy in policies),
        default=0,
    )


# A finish so little after the deadline is rounding.
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class PolicyScore:
    """What a policy makes of the trials.

    Attributes:
        name: the policy's.
        utility, cost: means, in units of the on-demand price.
        on_time: share of the trials done by the soft deadline.
        of_optimum: mean utility over the optimum's; None where that is not above 0.
    """

    name: str
    utility: Estimate
    cost: Estimate
    on_time: Estimate
    of_optimum: Estimate | None


@dataclass(frozen=True, slots=True, eq=False)
class PolicyComparison:
    """All that was played; j trials, m policies.

    Attributes:
        trials: on which.
        names: [m] of the policies.
        outcome: [j, m].
        optimum: [j] the most utility there was to have.
    """

    trials: Trials
    names: tuple[str, ...]
    outcome: BatchOutcome
    optimum: Floats

    def score(self, policy: int) -> PolicyScore:
        """Return the score of a policy."""
        utility = self.outcome.utility[:, policy]
        late = self.outcome.finish[:, policy] > self.trials.job.deadline + _SLACK
        return PolicyScore(
            self.names[policy],
            mean_of(utility),
            mean_of(self.outcome.cost[:, policy]),
            mean_of((~late).astype(np.float64)),
            ratio_of(utility, self.optimum),
        )

    def ranked(self) -> list[int]:
        """Policies from the highest mean utility down; of equals the first first."""
        mean = self.outcome.utility.mean(axis=0)
        return [int(index) for index in np.argsort(-mean, kind="stable")]


def play_all(trials: Trials, policies: Sequence[Policy]) -> PolicyComparison:
    """Play all policies, and find the optimum of each trial."""
    # Before what may take long: it is the larger program, and refused where it has no room.
    optimum = optimum_of(trials)
    outcome = play_batch(policies, trials.jobs, trials.markets, trials.forecasts)
    return PolicyComparison(trials, tuple(policy.name for policy in policies), outcome, optimum)


def optimum_of(trials: Trials) -> Floats:
    """[j] the most utility that there is to have."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = threads.map(offline_optimum, trials.jobs, trials.markets)
        return np.array([optimum.utility for optimum in found])


def write_comparison(comparison: PolicyComparison, file: BinaryIO) -> None:
    """Write a row for each trial and policy, as parquet."""
    trials, outcome = comparison.trials, comparison.outcome
    num, width = trials.num_trials, len(comparison.names)
    starts = trials.starts
    pl.DataFrame(
        {
            "trial": np.repeat(np.arange(num, dtype=np.int32), width),
            "market": np.repeat(np.array([s.market for s in starts], dtype=np.int32), width),
            "start": np.repeat(np.array([s.slot for s in starts], dtype=np.int32), width),
            "workload": np.repeat([job.workload for job in trials.jobs], width),
            "n_min": np.repeat(np.array([j.n_min for j in trials.jobs], dtype=np.int32), width),
            "n_max": np.repeat(np.array([j.n_max for j in trials.jobs], dtype=np.int32), width),
            "policy": list(comparison.names) * num,
            "value": outcome.value.ravel(),
            "cost": outcome.cost.ravel(),
            "finish": outcome.finish.ravel(),
            "utility": outcome.utility.ravel(),
            "optimum": np.repeat(comparison.optimum, width),
        }
    ).write_parquet(file)
