"""How far advice can be believed: what it said at many moments, beside what came.

    python benchmarks/spot_advice.py FOLDER_OF_MARKET_FILES [NUM_MOMENTS]

FOLDER holds the files of the benchmark market (docs/explanation/spot-data.md). A job (L = 80,
d = 10, v = 120, at most 12 GPUs) begins at random moments of its markets, at least four days after
their beginnings, and advice is asked for at once, from what was seen until then. Moments share
slots of one record of counts, so that many of them are less than they seem.
"""

import sys
from pathlib import Path

import numpy as np

from auctune.sim.spot.advice import advise
from auctune.sim.spot.benchmark import benchmark_markets, draw_starts
from auctune.sim.spot.foretelling import Seasonal
from auctune.spot import Ahanp, OnDemandOnly, Policy, SpotFirst, SpotJob, UniformProgress, play

JOB = SpotJob(workload=80.0, deadline=10, n_max=12, value=120.0)
POLICIES: tuple[Policy, ...] = (Ahanp(), SpotFirst(), UniformProgress(), OnDemandOnly())
PAST = 192


def main(folder: Path, num_moments: int) -> None:
    markets = [named.market for named in benchmark_markets(folder)]
    starts = draw_starts(markets, num_moments, JOB.deadline, past=PAST)
    print("| policy | risk said | late | Brier | of the mean | cost said | cost | within p90 |")
    print("| --- | --: | --: | --: | --: | --: | --: | --: |")
    for policy in POLICIES:
        said, came = [], []
        for number, start in enumerate(starts):
            market = markets[start.market]
            seen = market.until(start.slot)
            advice = advise(JOB, policy, Seasonal(), seen, start.slot, num_futures=100, seed=number)
            outcome = play(policy, JOB, market.between(start.slot, start.slot + JOB.deadline))
            said.append((advice.risk, advice.cost, advice.cost_p90))
            came.append((outcome.finish > JOB.deadline + 1e-9, outcome.cost))
        risk, cost, high = np.array(said).T
        late, paid = np.array(came, dtype=np.float64).T
        print(
            f"| {policy.name} | {risk.mean():.2f} | {late.mean():.2f} "
            f"| {np.square(risk - late).mean():.3f} | {late.var():.3f} "
            f"| {cost.mean():.1f} | {paid.mean():.1f} | {(paid <= high + 1e-9).mean():.2f} |"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 400)
