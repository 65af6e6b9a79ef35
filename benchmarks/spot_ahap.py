"""Where AHAP loses to the offline optimum, with perfect forecasts on the benchmark market.

    python benchmarks/spot_ahap.py FOLDER_OF_MARKET_FILES [--jobs N]

A job (L = 80, d = 10, v = 120, at most 12 GPUs) begins N times (1,000) at random moments. Rows are
pools that differ from the published one in one thing, each with its best policy by mean utility;
columns say how often AHAP's best was late, and its utility over the optimum's.
"""

import argparse
from pathlib import Path

import numpy as np

from auctune.sim.spot.benchmark import benchmark_markets, draw_starts
from auctune.sim.spot.foretelling import Perfect
from auctune.sim.spot.rivalry import Rivalry, play_all
from auctune.sim.spot.trials import make_trials
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

JOB = SpotJob(workload=80.0, deadline=10, n_max=12, value=120.0)
SIGMAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def grid(
    windows: range,
    *,
    sigmas: tuple[float, ...] = SIGMAS,
    averaged: bool = True,
    plan_always: bool = False,
) -> list[Policy]:
    """AHAP with each window, commitment and threshold."""
    return [
        Ahap(window, commitment, sigma, plan_always)
        for window in windows
        for commitment in (range(1, window + 1) if averaged else [1])
        for sigma in sigmas
    ]


POOLS: dict[str, list[Policy]] = {
    "published: w to 5, c to w, sigma 0.3 to 0.9": grid(range(1, 6)),
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
    "od-only": [OnDemandOnly()],
    "robust": [Robust()],
}


def line(name: str, pool: list[Policy], all_of_them: list[Policy], rivalry: Rivalry) -> str:
    """The best of a pool."""
    indices = [all_of_them.index(policy) for policy in pool]
    best = max(indices, key=lambda index: float(rivalry.outcome.utility[:, index].mean()))
    standing = rivalry.standing(best)
    assert standing.of_optimum is not None
    share = standing.of_optimum
    return (
        f"| {name} | {len(pool)} | {standing.name} | {1 - standing.on_time.value:.2f} "
        f"| {standing.cost.value:.1f} | {share.value:.3f} ± {share.half_width:.3f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1000)
    given = parser.parse_args()
    markets = [named.market for named in benchmark_markets(given.folder)]
    starts = draw_starts(markets, given.jobs, JOB.deadline)
    policies: list[Policy] = []
    for pool in POOLS.values():
        policies += [policy for policy in pool if policy not in policies]
    trials = make_trials(JOB, markets, starts, Perfect(), policies)
    rivalry = play_all(trials, policies)
    print("| pool | policies | its best | late | cost | of the optimum |")
    print("| --- | --: | --- | --: | --: | --: |")
    for name, pool in POOLS.items():
        print(line(name, pool, policies, rivalry))
    print(f"| optimum | | | | | {np.mean(rivalry.optimum):.2f} |")


if __name__ == "__main__":
    main()
