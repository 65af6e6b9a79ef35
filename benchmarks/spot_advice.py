"""Calibration of advice: predictions at many moments of held-out series, compared with outcomes.

    python benchmarks/spot_advice.py FOLDER_OF_MARKET_FILES [--traces SPOT_TRACES]

Jobs start at random moments; advice uses the market until then, four days at least, and the rest is
held out. Jobs with 12 GPUs have L = 80, those with one GPU two thirds of their slots, or 48 h of
92. Changes of GPUs are charged by instance, 0.1 slots a start.

| series | data |
| --- | --- |
| benchmark | 40 markets of FOLDER (docs/explanation/spot-data.md) with one record of counts |
| four | FOLDER's record of 4 instances at a constant price; times four for 12 GPUs |
| joint, bamboo | FOLDER's joint records and Bamboo's longest, slots of 600 s, half a day of past |
| traces | eight of a checkout of skypilot-org/spot-traces, 27 and 45 days; constant price |
| preemption | that checkout's series of one held instance that are long enough, 6 and 7 days |
| several | its series of 4 and 16 instances that FOLDER lacks, clipped to one, 11 to 18 days |
| synthetic | one market for each moment, from the generator fitted to real ones |

The policy is the default of `auctune spot advise`. How moments are chosen and how much room is left
(`auctune.sim.spot.advice`) was chosen with MSU and UP on nine other availability series of one
instance of that checkout, from zones of us-east-1, from us-east-2b and of K80, none of which is
here. Of "preemption" and "several" none was looked at when that was chosen.

"Brier" is the mean square of (predicted risk - late), beside that of the mean as constant
prediction. "within" are the shares of costs up to the predicted p50 and p90, "below" that of costs
under the p90: costs have few values, and an exact p90 has 0.9 between the two. "p90 / paid" is the
mean ratio, "interval" the exact one of "within p90", for moments that are independent: those of a
short series overlap, and it is then too narrow.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

from auctune.numerics.rng import stream
from auctune.sim.spot.advice import advise
from auctune.sim.spot.forecasts import ChainSpec
from auctune.sim.spot.generator import V100_MARKET
from auctune.sim.spot.importers import import_series
from auctune.sim.spot.trace import (
    FixedPrice,
    FromFile,
    MarketRecipe,
    read_market,
    slot_counts,
    whole_slots,
)
from auctune.sim.spot.trials import benchmark_markets, draw_starts
from auctune.spot import (
    Ahanp,
    Policy,
    Robust,
    SpotFirst,
    SpotJob,
    SpotMarket,
    UniformProgress,
    play,
)
from auctune.spot.forecasts import make_forecasts
from auctune.spot.job import InstanceStart

JOBS = {
    "5 h, 12 GPUs": SpotJob(workload=80.0, deadline=10, n_max=12, overhead=InstanceStart(0.1)),
    "5 h, 1 GPU": SpotJob(workload=7.0, deadline=10, n_max=1, overhead=InstanceStart(0.1)),
    "18 h, 1 GPU": SpotJob(workload=24.0, deadline=36, n_max=1, overhead=InstanceStart(0.1)),
    "48 h, 1 GPU": SpotJob(workload=64.0, deadline=96, n_max=1, overhead=InstanceStart(0.1)),
    "92 h, 1 GPU": SpotJob(workload=96.0, deadline=184, n_max=1, overhead=InstanceStart(0.1)),
}
# Of 600 s.
SHORT = SpotJob(workload=20.0, deadline=30, n_max=1, value=30.0, overhead=InstanceStart(0.3))
DEFAULT = Robust()
BASELINES: tuple[Policy, ...] = (SpotFirst(), UniformProgress())
PAST, SLOTS, SLOT_SECONDS = 192, 789, 1800.0
ON_DEMAND, SPOT = 3.06, 0.92
FOUR = "sky_20230803_us-east-2a-v100-1gpu_4inst_hold.csv"
BAMBOO = "bamboo_gcp_a100_count.csv"
TRACES = (
    "aws-02-15-2023/us-east-2a_v100_1",
    "aws-02-15-2023/us-west-2a_v100_1",
    "aws-02-15-2023/us-west-2b_v100_1",
    "aws-02-15-2023/us-west-2c_v100_1",
    "aws-10-26-2022/us-west-2a_v100_1",
    "aws-10-26-2022/us-west-2b_v100_1",
    "aws-10-26-2022/us-west-2a_v100_8",
    "aws-10-26-2022/us-west-2b_v100_8",
)

SEVERAL = (
    "availability/16-node/aws-08-27-2023/us-east-2b_v100_1",
    "availability/16-node/aws-08-27-2023/us-west-2c_v100_1",
    "preemption/4-node/aws-08-03-2023/us-east-1f_v100_1",
    "preemption/4-node/aws-08-03-2023/us-west-2c_v100_1",
)

Moments = list[tuple[SpotMarket, int]]


@dataclass(frozen=True)
class Case:
    """A job at moments of a series."""

    job_name: str
    job: SpotJob
    series: str
    moments: Moments


def past_slots(job: SpotJob, past: int = PAST) -> int:
    """Return the slots before a moment that analogues as long as the job need."""
    return max(past, 2 * job.deadline + 8)


def draw_moments(markets: list[SpotMarket], job: SpotJob, num: int, past: int = PAST) -> Moments:
    """Return moments with enough past for analogues as long as the job."""
    past = past_slots(job, past)
    starts = draw_starts(markets, num, job.deadline, past=past)
    return [(markets[start.market], start.slot) for start in starts]


def draw_synthetic(num: int, deadline: int) -> Moments:
    """Return moments of as many synthetic markets."""
    slots = stream(0, "moments").integers(PAST, SLOTS - deadline, num)
    return [(V100_MARKET.market(SLOTS, seed), int(slot)) for seed, slot in enumerate(slots)]


def read_counts(path: Path, slot_seconds: float) -> SpotMarket:
    """Return a record of FOLDER at the constant price, or at its own."""
    priced = "joint" in path.name
    return read_market(
        MarketRecipe(
            available=FromFile(path),
            price=None if priced else FixedPrice(SPOT),
            on_demand_price=0.9 if priced else ON_DEMAND,
            slot_seconds=slot_seconds,
        )
    )


def read_published(path: Path) -> SpotMarket:
    """Return a series of the checkout at the constant price, clipped to one instance."""
    trace = import_series(path, "available", 1)
    count = slot_counts(trace, 0.0, SLOT_SECONDS, whole_slots(trace, 0.0, SLOT_SECONDS))
    return SpotMarket(np.full(len(count), SPOT / ON_DEMAND), np.minimum(count, 1))


def cases(folder: Path, traces: Path | None, num_moments: int) -> Iterator[Case]:
    """Yield all jobs at moments of all series."""
    benchmark = [named.market for named in benchmark_markets(folder)]
    four = read_counts(folder / FOUR, SLOT_SECONDS)
    published: dict[str, SpotMarket] = {}
    fresh: dict[str, list[SpotMarket]] = {}
    if traces is not None:
        one = traces / "availability" / "1-node"
        published = {name: read_published(one / f"{name}.json") for name in TRACES}
        held = sorted((traces / "preemption" / "1-node").glob("*/*.json"))
        fresh["preemption"] = [read_published(path) for path in held]
        fresh["several"] = [read_published(traces / f"{name}.json") for name in SEVERAL]
    for name, job in JOBS.items():
        if name != "5 h, 1 GPU":
            series = {"benchmark": benchmark}
            series["four"] = [SpotMarket(four.price, four.available * (4 if job.n_max > 1 else 1))]
            if job.deadline > 100:
                # Too short.
                series = {}
            for label, markets in series.items():
                yield Case(name, job, label, draw_moments(markets, job, num_moments))
        if job.n_max > 1:
            yield Case(name, job, "synthetic", draw_synthetic(num_moments, job.deadline))
        else:
            for label, market in published.items():
                yield Case(name, job, label, draw_moments([market], job, num_moments))
            for label, markets in fresh.items():
                enough = past_slots(job) + job.deadline
                long = [market for market in markets if market.num_slots >= enough]
                if long:
                    yield Case(name, job, label, draw_moments(long, job, num_moments))
    joint = [read_counts(path, 600.0) for path in sorted(folder.glob("*_joint.csv"))]
    yield Case("5 h, 1 GPU", SHORT, "joint", draw_moments(joint, SHORT, num_moments, 72))
    bamboo = [read_counts(folder / BAMBOO, 600.0)]
    yield Case("5 h, 1 GPU", SHORT, "bamboo", draw_moments(bamboo, SHORT, num_moments, 72))


def measure(case: Case, policy: Policy) -> dict[str, float]:
    """Return predictions for a policy, and outcomes."""
    job = case.job
    predictions, outcomes = [], []
    for market, slot in case.moments:
        seen = market.until(slot)
        advice = advise(job, policy, ChainSpec(), seen, slot)
        forecasts = None
        if policy.horizon != 0:
            forecaster = ChainSpec().forecaster(seen, 0)
            forecasts = make_forecasts(forecaster, market, slot, job.deadline, job.deadline - 1)
        outcome = play(policy, job, market.between(slot, slot + job.deadline), forecasts)
        predictions.append((advice.risk, advice.cost, advice.cost_p50, advice.cost_p90))
        outcomes.append((outcome.finish > job.deadline + 1e-9, outcome.cost))
    risk, cost, p50, p90 = np.array(predictions).T
    late, paid = np.array(outcomes, dtype=np.float64).T
    return {
        "moments": len(paid),
        "risk": float(risk.mean()),
        "late": float(late.mean()),
        "Brier": float(np.square(risk - late).mean()),
        "of mean": float(late.var()),
        "cost": float(cost.mean()),
        "paid": float(paid.mean()),
        "p90 / paid": float((p90 / paid).mean()),
        "within p50": float((paid <= p50 + 1e-9).mean()),
        "within p90": float((paid <= p90 + 1e-9).mean()),
        "below p90": float((paid < p90 - 1e-9).mean()),
    }


FIGURES = (
    "risk",
    "late",
    "Brier",
    "of mean",
    "cost",
    "paid",
    "p90 / paid",
    "within p50",
    "within p90",
    "below p90",
)


def main() -> None:
    """Print a row for each case and policy, then their means by job."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--traces", type=Path, help="checkout of skypilot-org/spot-traces")
    parser.add_argument("--baselines", action="store_true", help="MSU, UP and AHANP too")
    parser.add_argument("--moments", type=int, default=200, help="of each series (%(default)s)")
    parser.add_argument("--series", nargs="+", help="these alone, as rows name them")
    options = parser.parse_args()
    heads = ("job", "series", "policy", "moments", *FIGURES, "interval")
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    rows = []
    for case in cases(options.folder, options.traces, options.moments):
        if options.series and case.series not in options.series:
            continue
        policies: list[Policy] = [DEFAULT]
        if options.baselines:
            policies += [*BASELINES, *([Ahanp()] if case.job.n_max > 1 else [])]
        for policy in policies:
            measured = measure(case, policy)
            rows.append((case.job_name, policy.name, measured))
            moments, share = int(measured["moments"]), measured["within p90"]
            exact = stats.binomtest(round(share * moments), moments).proportion_ci()
            cells = [f"{measured[name]:.3f}" for name in FIGURES]
            cells.append(f"{exact.low:.2f} to {exact.high:.2f}")
            print(
                f"| {case.job_name} | {case.series} | {policy.name} "
                f"| {moments} | {' | '.join(cells)} |",
                flush=True,
            )
    frame = pl.DataFrame([{"job": job, "policy": name, **found} for job, name, found in rows])
    means = frame.group_by(["job", "policy"], maintain_order=True).agg(pl.col(*FIGURES).mean())
    print(f"\n| {' | '.join(('job', 'policy', *FIGURES))} |\n|{' --- |' * (2 + len(FIGURES))}")
    for row in means.iter_rows():
        print(f"| {row[0]} | {row[1]} | {' | '.join(f'{x:.3f}' for x in row[2:])} |")


if __name__ == "__main__":
    main()
