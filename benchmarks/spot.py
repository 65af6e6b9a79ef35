"""Spot policies: a pool of policies on many jobs, and the offline optimum.

    python benchmarks/spot.py [--jobs N] [--seed S]

| what | how |
| --- | --- |
| pool | the 112 policies of the default pool on N jobs (1,000), each with ten slots of its own market, after forecasts and compilation; CPU seconds of all threads, and wall clock |
| limit | a lower bound: the additions and maxima of this run's window programs, one for each count, kind of change and unit of work in each planned slot, at the rate of a bare loop over cached arrays |
| optimum, robust | CPU seconds of the offline optimum and of `Robust(risk=1.0)` on the same jobs |

Jobs are those of Kong et al., Fig. 9: L uniform in [60, 100], d = 10, N_min in {1, 2, 4}, N_max in
{8, 12, 16}. The market drifts about a daily cycle, with at most 16 GPUs.
"""  # noqa: E501

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel
from auctune.numerics.rng import stream
from auctune.spot import (
    Ahap,
    BatchOutcome,
    Robust,
    SpotJob,
    SpotMarket,
    default_pool,
    offline_optimum,
    play_batch,
)
from auctune.spot.account import JobConstants, job_constants, work_of
from auctune.spot.deadline import is_ahead, line_code
from auctune.spot.forecasts import (
    Fixed,
    ForecastTable,
    NoisyForecaster,
    PosteriorForecaster,
    UniformNoise,
    make_forecasts,
)
from auctune.spot.window.table import take_better, target_units, units_done

T = TypeVar("T")

GOAL_SECONDS = 20.0
DEADLINE, CAP, DAY = 10, 16, 48


@dataclass(frozen=True)
class Case:
    """Jobs, each with its market and forecasts."""

    jobs: list[SpotJob]
    markets: list[SpotMarket]
    forecasts: list[ForecastTable]


def make_market(seed: int, num_slots: int = 2000) -> SpotMarket:
    """Return a drifting market with a daily cycle."""
    random = stream(seed, "market")
    price, count = np.empty(num_slots), np.empty(num_slots)
    p, a = 0.0, 0.0
    for slot in range(num_slots):
        p = 0.9 * p + 0.04 * random.normal()
        a = 0.85 * a + 1.8 * random.normal()
        day = np.sin(2 * np.pi * slot / DAY)
        price[slot] = max(0.5 + 0.1 * day + p, 0.05)
        count[slot] = np.clip(np.round(7 - 3 * day + a), 0, CAP)
    return SpotMarket(price, count.astype(np.int64))


def make_case(num_jobs: int, seed: int, noise: float) -> Case:
    """Return jobs at random starts; `noise` of their forecasts is a share of the mean."""
    market = make_market(seed)
    forecaster = PosteriorForecaster(
        NoisyForecaster(market, Fixed(noise), UniformNoise(), CAP, seed), memory=96
    )
    random = stream(seed, "jobs")
    jobs, markets, forecasts = [], [], []
    for _ in range(num_jobs):
        start = int(random.integers(DAY, market.num_slots - DEADLINE))
        jobs.append(
            SpotJob(
                workload=round(float(random.uniform(60, 100)), 1),
                deadline=DEADLINE,
                n_min=int(random.choice([1, 2, 4])),
                n_max=int(random.choice([8, 12, 16])),
            )
        )
        markets.append(market.between(start, start + DEADLINE))
        forecasts.append(make_forecasts(forecaster, market, start, DEADLINE, DEADLINE - 1))
    return Case(jobs, markets, forecasts)


def measure(action: Callable[[], T]) -> tuple[T, float, float]:
    """Return the result, CPU seconds of all threads, and wall-clock seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = action()
    return result, time.process_time() - cpu, time.perf_counter() - wall


def window_steps(case: Case, pool: tuple[Ahap, ...], batch: BatchOutcome) -> int:
    """Return the number of additions and maxima of a batch's window programs."""
    steps = 0
    for j, job in enumerate(case.jobs):
        terms = job_constants(job, 1.0)
        progress = progress_by_slot(terms, batch.held[j])
        for window in {policy.window for policy in pool}:
            members = [m for m, policy in enumerate(pool) if policy.window == window]
            for slot in range(job.deadline):
                behind = [
                    progress[m, slot]
                    for m in members
                    if not is_ahead(terms, progress[m, slot], slot, line_code(pool[m].line))
                ]
                if behind:
                    end = min(slot + window, job.deadline)
                    high = target_units(terms, job.workload * end / job.deadline)
                    width = high - min(units_done(terms, min(behind)), high) + 1
                    steps += 3 * (job.n_max - job.n_min + 1) * width * (end - slot - 1)
    return steps


def progress_by_slot(terms: JobConstants, held: Ints) -> Floats:
    """Return [m, t], the work done before each slot, by policy."""
    num_policies, num_slots, _ = held.shape
    progress = np.zeros((num_policies, num_slots + 1))
    for m in range(num_policies):
        last = 0
        for slot, count in enumerate(held[m].sum(axis=1).tolist()):
            work = work_of(terms, count, last) if count else 0.0
            progress[m, slot + 1] = progress[m, slot] + work
            last = count
    return progress


def seconds_per_step() -> float:
    """Return CPU seconds of one addition and one maximum over cached arrays."""
    after, best = np.linspace(0, 1, 801), np.zeros(801)
    repeat_steps(after, best, 1)
    repeats = 200_000
    start = time.process_time()
    for _ in range(repeats // 1000):
        repeat_steps(after, best, 1000)
    return (time.process_time() - start) / (repeats * 801)


@kernel
def repeat_steps(after: Floats, best: Floats, repeats: int) -> None:
    """Run steps in compiled code."""
    for _ in range(repeats):
        take_better(after, 20, 0.1, 0, 800, 800, best)


def main() -> None:
    """Print measurements."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--noise", type=float, default=0.3, help="of forecasts, as a share of the mean"
    )
    options = parser.parse_args()
    case, case_cpu, _ = measure(lambda: make_case(options.jobs, options.seed, options.noise))
    pool = default_pool()
    few = Case(case.jobs[:2], case.markets[:2], case.forecasts[:2])
    # Pools with and without the robust policy use different kernels.
    for policies in (pool, (Robust(risk=1.0),)):
        play_batch(policies, few.jobs, few.markets, few.forecasts)
    offline_optimum(few.jobs[0], few.markets[0])

    batch, cpu, wall = measure(lambda: play_batch(pool, case.jobs, case.markets, case.forecasts))
    best, optimum_cpu, _ = measure(
        lambda: np.array(
            [offline_optimum(*one).utility for one in zip(case.jobs, case.markets, strict=True)]
        )
    )
    robust, robust_cpu, _ = measure(
        lambda: play_batch(
            (Robust(risk=1.0),), case.jobs, case.markets, case.forecasts, num_threads=1
        )
    )
    steps = window_steps(case, tuple(p for p in pool if isinstance(p, Ahap)), batch)
    limit = steps * seconds_per_step()

    table = Table(title=f"{len(pool)} policies, {options.jobs} jobs, {os.cpu_count()} processors")
    table.add_column("measurement")
    table.add_column("value", justify="right")
    table.add_column("goal or limit")
    table.add_row(
        "pool, CPU seconds", f"{cpu:.2f}", f"limit {limit:.2f}: {steps / 1e9:.2f}e9 steps"
    )
    table.add_row("pool, wall clock, s", f"{wall:.2f}", f"goal {GOAL_SECONDS:.0f} on 2 cores")
    table.add_row("per policy and job, CPU us", f"{cpu / batch.value.size * 1e6:.1f}", "")
    table.add_row("offline optimum, CPU ms per job", f"{optimum_cpu / options.jobs * 1e3:.2f}", "")
    table.add_row("robust, CPU ms per job", f"{robust_cpu / options.jobs * 1e3:.2f}", "")
    table.add_row(
        "forecasts with quantiles, CPU ms per job", f"{case_cpu / options.jobs * 1e3:.2f}", ""
    )
    utility = batch.utility.mean(axis=0)
    leader = int(np.argmax(utility))
    table.add_row(
        f"best of the pool / optimum: {pool[leader].name}",
        f"{utility[leader] / best.mean():.3f}",
        f"forecasts with {options.noise:.0%} noise",
    )
    table.add_row("robust / optimum", f"{robust.utility.mean() / best.mean():.3f}", "same")
    Console().print(table)


if __name__ == "__main__":
    main()
