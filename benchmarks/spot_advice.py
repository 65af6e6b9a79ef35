"""Calibration of advice: predictions at many moments, compared with outcomes.

    python benchmarks/spot_advice.py FOLDER_OF_MARKET_FILES [NUM_MOMENTS]

A job (L = 80, d = 10, v = 120, at most 12 GPUs) starts at random moments of three kinds of markets,
at least four days after their start. Advice uses the market until then; the rest is held out.

| market | data |
| --- | --- |
| benchmark | 40 markets of FOLDER (docs/explanation/spot-data.md) with one record of counts |
| four | FOLDER's record of 4 instances, counts multiplied by four, at a constant price |
| synthetic | one market for each moment, from the generator fitted to real ones |

"Brier" is the mean square of (predicted risk - late); "Brier of mean" that of the mean as constant
prediction. The shares of costs within the predicted p50 and p90 should be at least 0.5 and 0.9:
costs have few values, and ties count as within.
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


def draw_moments(markets: list[SpotMarket], num_moments: int) -> Moments:
    starts = draw_starts(markets, num_moments, JOB.deadline, past=PAST)
    return [(markets[start.market], start.slot) for start in starts]


def draw_synthetic(num_moments: int) -> Moments:
    """Return moments of as many synthetic markets."""
    slots = stream(0, "moments").integers(PAST, SLOTS - JOB.deadline, num_moments)
    return [(V100_MARKET.market(SLOTS, seed), int(slot)) for seed, slot in enumerate(slots)]


def cases(folder: Path, num_moments: int) -> Iterator[tuple[str, Moments]]:
    """Yield name and moments of each kind of market."""
    benchmark = [named.market for named in benchmark_markets(folder)]
    yield "benchmark", draw_moments(benchmark, num_moments)
    counts = MarketRecipe(
        available=FromFile(folder / FOUR),
        price=FixedPrice(0.92),
        on_demand_price=3.06,
        slot_seconds=1800.0,
    )
    four = read_market(counts)
    yield "four", draw_moments([SpotMarket(four.price, 4 * four.available)], num_moments)
    yield "synthetic", draw_synthetic(num_moments)


def line(name: str, policy: Policy, moments: Moments) -> str:
    """Return a row of the table: predictions for a policy, and outcomes."""
    predictions, outcomes = [], []
    for market, slot in moments:
        advice = advise(JOB, policy, SeasonalSpec(), market.until(slot), slot)
        forecasts = None
        if policy.horizon != 0:
            forecaster = SeasonalSpec().forecaster(market.until(slot), 0)
            forecasts = make_forecasts(forecaster, market, slot, JOB.deadline, JOB.deadline - 1)
        outcome = play(policy, JOB, market.between(slot, slot + JOB.deadline), forecasts)
        predictions.append((advice.risk, advice.cost, advice.cost_p50, advice.cost_p90))
        outcomes.append((outcome.finish > JOB.deadline + 1e-9, outcome.cost))
    risk, cost, p50, p90 = np.array(predictions).T
    late, paid = np.array(outcomes, dtype=np.float64).T
    within = [(paid <= quantile + 1e-9).mean() for quantile in (p50, p90)]
    return (
        f"| {name} | {policy.name} | {risk.mean():.2f} | {late.mean():.2f} "
        f"| {np.square(risk - late).mean():.3f} | {late.var():.3f} "
        f"| {cost.mean():.1f} | {paid.mean():.1f} | {np.abs(cost - paid).mean():.1f} "
        f"| {within[0]:.2f} | {within[1]:.2f} |"
    )


def main(folder: Path, num_moments: int) -> None:
    """Print the table."""
    print(
        "| market | policy | predicted risk | late | Brier | Brier of mean "
        "| predicted cost | cost | mean error | within p50 | within p90 |"
    )
    print("| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
    for name, moments in cases(folder, num_moments):
        for policy in POLICIES:
            print(line(name, policy, moments), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 400)
