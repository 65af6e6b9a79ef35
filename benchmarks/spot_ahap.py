"""AHAP against the offline optimum on the benchmark market, by default with perfect forecasts.

    python benchmarks/spot_ahap.py FOLDER_OF_MARKET_FILES [--jobs N] [--forecast F]

Jobs are those of Kong et al., Fig. 9 (d = 10, L uniform in [60, 100], N_min in {1, 2, 4}, N_max in
{8, 12, 16}), started N times (1,000) at random moments. Rows are pools that differ from the paper's
in one respect, with the best policy by mean utility; columns are its share of late jobs, and its
utility over the optimum's, for all jobs and by N_max.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from auctune.sim.spot.forecasts import parse_forecaster
from auctune.sim.spot.trials import (
    PolicyComparison,
    benchmark_markets,
    draw_starts,
    make_trials,
    parse_variation,
    play_all,
)
from auctune.spot import (
    Ahanp,
    Ahap,
    OnDemandOnly,
    Policy,
    Robust,
    SpotFirst,
    SpotJob,
    UniformProgress,
)
from auctune.spot.deadline import ProgressLine

JOB = SpotJob(workload=80.0, deadline=10)
FIG_9 = ("workload=60-100", "n_min=1,2,4", "n_max=8,12,16")
SIGMAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def grid(
    windows: range,
    *,
    sigmas: tuple[float, ...] = SIGMAS,
    averaged: bool = True,
    plan_always: bool = False,
    line: ProgressLine = "slot_end",
) -> list[Policy]:
    """Return AHAP policies for all windows, commitments and thresholds."""
    return [
        Ahap(window, commitment, sigma, plan_always, line)
        for window in windows
        for commitment in (range(1, window + 1) if averaged else [1])
        for sigma in sigmas
    ]


POOLS: dict[str, list[Policy]] = {
    "the paper's: w to 5, c to w, sigma 0.3 to 0.9": grid(range(1, 6)),
    "line = slot_start": grid(range(1, 6), line="slot_start"),
    "line = slot_start, w to 10": grid(range(1, 11), line="slot_start"),
    "no averaging: c = 1": grid(range(1, 6), averaged=False),
    "wider thresholds: sigma 0.1 to 1.5": grid(
        range(1, 6), sigmas=(0.1, 0.2, *SIGMAS, 1.0, 1.2, 1.5)
    ),
    "longer windows: w to 10": grid(range(1, 11)),
    "no threshold branch": grid(range(1, 6), sigmas=(0.5,), plan_always=True),
    "no threshold branch, w to 10": grid(range(1, 11), sigmas=(0.5,), plan_always=True),
    "up": [UniformProgress()],
    "msu": [SpotFirst()],
    "ahanp, 7 thresholds": [Ahanp(sigma) for sigma in SIGMAS],
    "ahanp, line = slot_end": [Ahanp(sigma, line="slot_end") for sigma in SIGMAS],
    "od-only": [OnDemandOnly()],
    "robust": [Robust(risk=1.0)],
}


def line(
    name: str, pool: list[Policy], policies: list[Policy], comparison: PolicyComparison
) -> str:
    """Return the row of a pool."""
    indices = [policies.index(policy) for policy in pool]
    best = max(indices, key=lambda index: float(comparison.outcome.utility[:, index].mean()))
    score = comparison.score(best)
    shares = " | ".join(share_of(comparison, best, n_max) for n_max in (None, 8, 12, 16))
    late = 1 - score.on_time.value
    return f"| {name} | {len(pool)} | {score.name} | {late:.2f} | {shares} |"


def share_of(comparison: PolicyComparison, policy: int, n_max: int | None) -> str:
    """Return mean utility over the optimum's, of jobs with `n_max` GPUs or all jobs."""
    chosen = np.array([n_max is None or job.n_max == n_max for job in comparison.trials.jobs])
    utility = comparison.outcome.utility[chosen, policy].mean()
    return f"{utility / comparison.optimum[chosen].mean():.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--forecast", default="perfect")
    options = parser.parse_args()
    markets = [named.market for named in benchmark_markets(options.folder)]
    starts = draw_starts(markets, options.jobs, JOB.deadline)
    policies: list[Policy] = []
    for pool in POOLS.values():
        policies += [policy for policy in pool if policy not in policies]
    trials = make_trials(
        JOB, markets, starts, parse_forecaster(options.forecast, "--forecast"), policies
    )
    varied = parse_variation(FIG_9, "jobs").draw(JOB, options.jobs, seed=0)
    comparison = play_all(replace(trials, varied=varied), policies)
    print("| pool | policies | best | late | all | N_max = 8 | 12 | 16 |")
    print("| --- | --: | --- | --: | --: | --: | --: | --: |")
    for name, pool in POOLS.items():
        print(line(name, pool, policies, comparison))


if __name__ == "__main__":
    main()
