"""How far advice can be believed: what it said at many moments, beside what came.

    python benchmarks/spot_advice.py FOLDER_OF_MARKET_FILES [NUM_MOMENTS]

A job (L = 80, d = 10, v = 120, at most 12 GPUs) begins at random moments of three kinds of markets,
at least four days after their beginnings, and advice is asked for at once, from what was seen until
then. What follows is held out. The markets:

| market | what |
| --- | --- |
| benchmark | 40 markets of FOLDER (docs/explanation/spot-data.md) with one record of counts |
| four | FOLDER's record of 4 instances, counted four times, at a price that never changes |
| made up | a market of its own for each moment, from the generator fitted to real ones |

"Brier" is the mean square of (risk said - late), beside that of who says the mean for each. Of
what was paid, the share within the p50 and the p90 that were said should be 0.5 and 0.9 at least:
costs are few values, and a share within counts ties.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from auctune.numerics.rng import stream
from auctune.sim.spot.advice import advise
from auctune.sim.spot.forecasts import SeasonalSpec
from auctune.sim.spot.generator import V100_MARKET
from auctune.sim.spot.trace import FixedPrice, FromFile, MarketRecipe, read_market
from auctune.sim.spot.trials import benchmark_markets, draw_starts
from auctune.spot import (
    Ahanp,
    OnDemandOnly,
    Policy,
    Robust,
    SpotFirst,
    SpotJob,
    SpotMarket,
    UniformProgress,
    play,
)
from auctune.spot.forecasts import make_forecasts

JOB = SpotJob(workload=80.0, deadline=10, n_max=12, value=120.0)
POLICIES: tuple[Policy, ...] = (
    Ahanp(),
    SpotFirst(),
    UniformProgress(),
    OnDemandOnly(),
    Robust(risk=0.05),
)
PAST, SLOTS = 192, 789
FOUR = "sky_20230803_us-east-2a-v100-1gpu_4inst_hold.csv"

Moments = list[tuple[SpotMarket, int]]


def of_markets(markets: list[SpotMarket], num_moments: int) -> Moments:
    """Random moments of some markets."""
    starts = draw_starts(markets, num_moments, JOB.deadline, past=PAST)
    return [(markets[start.market], start.slot) for start in starts]


def of_made_up(num_moments: int) -> Moments:
    """A market for each moment."""
    slots = stream(0, "moments").integers(PAST, SLOTS - JOB.deadline, num_moments)
    return [(V100_MARKET.market(SLOTS, seed), int(slot)) for seed, slot in enumerate(slots)]


def cases(folder: Path, num_moments: int) -> Iterator[tuple[str, Moments]]:
    """The three kinds."""
    benchmark = [named.market for named in benchmark_markets(folder)]
    yield "benchmark", of_markets(benchmark, num_moments)
    counts = MarketRecipe(
        available=FromFile(folder / FOUR),
        price=FixedPrice(0.92),
        on_demand_price=3.06,
        slot_seconds=1800.0,
    )
    four = read_market(counts)
    yield "four", of_markets([SpotMarket(four.price, 4 * four.available)], num_moments)
    yield "made up", of_made_up(num_moments)


def line(name: str, policy: Policy, moments: Moments) -> str:
    """What was said of a policy, and what came."""
    said, came = [], []
    for market, slot in moments:
        advice = advise(JOB, policy, SeasonalSpec(), market.until(slot), slot)
        forecasts = None
        if policy.horizon != 0:
            forecaster = SeasonalSpec().forecaster(market.until(slot), 0)
            forecasts = make_forecasts(forecaster, market, slot, JOB.deadline, JOB.deadline - 1)
        outcome = play(policy, JOB, market.between(slot, slot + JOB.deadline), forecasts)
        said.append((advice.risk, advice.cost, advice.cost_p50, advice.cost_p90))
        came.append((outcome.finish > JOB.deadline + 1e-9, outcome.cost))
    risk, cost, middle, high = np.array(said).T
    late, paid = np.array(came, dtype=np.float64).T
    within = [(paid <= level + 1e-9).mean() for level in (middle, high)]
    return (
        f"| {name} | {policy.name} | {risk.mean():.2f} | {late.mean():.2f} "
        f"| {np.square(risk - late).mean():.3f} | {late.var():.3f} "
        f"| {cost.mean():.1f} | {paid.mean():.1f} | {np.abs(cost - paid).mean():.1f} "
        f"| {within[0]:.2f} | {within[1]:.2f} |"
    )


def main(folder: Path, num_moments: int) -> None:
    """Print the table."""
    print(
        "| market | policy | risk said | late | Brier | of the mean "
        "| cost said | cost | off by | within p50 | within p90 |"
    )
    print("| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
    for name, moments in cases(folder, num_moments):
        for policy in POLICIES:
            print(line(name, policy, moments), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 400)
