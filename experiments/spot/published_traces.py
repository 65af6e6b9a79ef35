"""The robust policy on published series of one instance: what it misses, by law and by foresight.

    python experiments/spot/published_traces.py CHECKOUT [--jobs N] [--kind cost|utility]

CHECKOUT is one of github.com/skypilot-org/spot-traces, whose series are those of "Can't Be Late"
(Wu et al., NSDI'24). The six here, V100 in us-east-2a and us-west-2, chose nothing: the chain's
constants were chosen on its series of us-east-1 and us-east-2b and of other instances.

| kind | jobs |
| --- | --- |
| cost | those of `cant_be_late.py`; mean USD, at 52 h also without a past (the series begins with the job) |
| utility | those of `job_lengths.py` with one GPU; mean utility / mean utility of the optimum, and shares late |

"law of the series" is the robust policy with the chain fitted to the whole series, its future
included: what robust is behind it is lost by not knowing the law, what it is behind the optimum by
not knowing the course (and by all that no stationary chain says). Starts are spread over each
series, one at random in each of N equal parts, after a day.
"""  # noqa: E501

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

import cant_be_late
import job_lengths
from auctune.numerics.arrays import Floats
from auctune.numerics.estimates import mean_of
from auctune.numerics.rng import stream
from auctune.sim.spot.importers import import_series
from auctune.sim.spot.trace import slot_counts, whole_slots
from auctune.spot import (
    Policy,
    Robust,
    SpotFirst,
    SpotJob,
    SpotMarket,
    UniformProgress,
    offline_optimum,
    play,
)
from auctune.spot.forecasts import Forecast, Forecaster, MarkovChain, make_forecasts

SERIES = (
    "aws-02-15-2023/us-east-2a",
    "aws-02-15-2023/us-west-2a",
    "aws-02-15-2023/us-west-2b",
    "aws-02-15-2023/us-west-2c",
    "aws-10-26-2022/us-west-2a",
    "aws-10-26-2022/us-west-2b",
)
DAY = 86_400
POLICIES: Mapping[str, Policy] = {
    "UP": UniformProgress(),
    "greedy": SpotFirst(),
    "robust": Robust(),
}
RISKY = {"robust(risk=0.05)": Robust(risk=0.05)}
WHOLE, ROBUST = "law of the series", "robust"


class WholeSeries:
    """A forecaster that counts the changes of a whole series, whatever the present slot."""

    def __init__(self, market: SpotMarket) -> None:
        self._market, self._chain = market, MarkovChain(refit=market.num_slots)

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        """Forecast after the past, by the law of all slots: the past follows the whole series."""
        all_slots = SpotMarket(
            np.concatenate((self._market.price, past.price)),
            np.concatenate((self._market.available, past.available)),
            past.on_demand_price,
            past.slot_seconds,
        )
        return self._chain.forecast(all_slots, num_slots)


def read(path: Path, slot_seconds: float) -> SpotMarket:
    """Return a series at the constant price of `cant_be_late.py`."""
    trace = import_series(path, "available", 1)
    count = slot_counts(trace, 0.0, slot_seconds, whole_slots(trace, 0.0, slot_seconds))
    price = cant_be_late.SPOT / cant_be_late.ON_DEMAND
    return SpotMarket(np.full(len(count), price), count, 1.0, slot_seconds)


def spread_starts(market: SpotMarket, job: SpotJob, num_jobs: int) -> Iterator[int]:
    """Yield a random start in each of as many equal parts of a series."""
    first = round(DAY / market.slot_seconds)
    share = (np.arange(num_jobs) + stream(job.deadline, "starts").uniform(size=num_jobs)) / num_jobs
    yield from (first + (share * (market.num_slots - job.deadline - first))).astype(int).tolist()


def measure(
    market: SpotMarket,
    job: SpotJob,
    num_jobs: int,
    *,
    has_past: bool = True,
    policies: Mapping[str, Policy] = POLICIES,
) -> Mapping[str, Floats]:
    """Return [j] utilities by policy, and [j] whether each was late as "NAME late"."""
    found: dict[str, list[float]] = {}

    def record(name: str, policy: Policy, start: int, forecaster: Forecaster | None) -> None:
        slots, deadline = market.between(start, start + job.deadline), job.deadline
        whole, first = (market, start) if has_past else (slots, 0)
        forecasts = None
        if forecaster is not None:
            forecasts = make_forecasts(forecaster, whole, first, deadline, deadline - 1)
        outcome = play(policy, job, slots, forecasts)
        found.setdefault(name, []).append(outcome.utility)
        found.setdefault(f"{name} late", []).append(outcome.finish > deadline + 1e-9)

    chain, law = MarkovChain(), WholeSeries(market)
    for start in spread_starts(market, job, num_jobs):
        best = offline_optimum(job, market.between(start, start + job.deadline))
        found.setdefault("optimum", []).append(best.utility)
        for name, policy in policies.items():
            record(name, policy, start, chain if policy.horizon is None else None)
        if has_past:
            record(WHOLE, policies[ROBUST], start, law)
    return {name: np.array(values, dtype=np.float64) for name, values in found.items()}


def print_costs(folder: Path, num_jobs: int) -> None:
    """Print mean costs in USD over all series, and differences on the same jobs."""
    usd = cant_be_late.ON_DEMAND * cant_be_late.SLOT_SECONDS / 3600
    markets = [read(folder / f"{name}_v100_1.json", cant_be_late.SLOT_SECONDS) for name in SERIES]
    settings = [(hours, True) for hours in cant_be_late.DEADLINE_HOURS]
    for hours, has_past in [*settings, (settings[0][0], False)]:
        job = cant_be_late.job(hours)
        each = [measure(market, job, num_jobs, has_past=has_past) for market in markets]
        joint = {name: np.concatenate([one[name] for one in each]) for name in each[0]}
        cost = {n: usd * (job.value - u) for n, u in joint.items() if not n.endswith(" late")}
        print(f"{hours} h, {'a day of past or more' if has_past else 'no past'}:")
        for name, own in cost.items():
            late = joint.get(f"{name} late", np.zeros(1)).sum()
            less = mean_of(cost[ROBUST] - own)
            print(f"  {name}: {own.mean():.2f}, late {late:.0f} of {len(own)}; {ROBUST} less it "
                  f"{less.value:+.2f} ±{less.half_width or 0:.2f}")  # fmt: skip


def print_utilities(folder: Path, num_jobs: int) -> None:
    """Print each series' utility over the optimum's, by length, and who was late."""
    markets = [read(folder / f"{name}_v100_1.json", job_lengths.SLOT_SECONDS) for name in SERIES]
    for hours in job_lengths.HOURS:
        job = job_lengths.job(hours, 1)
        for name, market in zip(SERIES, markets, strict=True):
            found = measure(market, job, num_jobs, policies={**POLICIES, **RISKY})
            cells = [
                f"{policy} {found[policy].sum() / found['optimum'].sum():.1%}, "
                f"late {found[f'{policy} late'].mean():.0%}"
                for policy in (*POLICIES, *RISKY, WHOLE)
            ]
            print(f"{hours} h, {name}: {'; '.join(cells)}", flush=True)


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--jobs", type=int, default=8, help="of each series (%(default)s)")
    parser.add_argument("--kind", choices=("cost", "utility"), default="cost")
    options = parser.parse_args()
    show = {"cost": print_costs, "utility": print_utilities}[options.kind]
    show(options.checkout / "availability" / "1-node", options.jobs)


if __name__ == "__main__":
    main()
