"""The robust policy on published series of one instance: what it misses, by law and by foresight.

    python experiments/spot/published_traces.py CHECKOUT [--jobs N] [--kind cost|utility]
        [--series six|all] [--records FOLDER]

CHECKOUT is one of github.com/skypilot-org/spot-traces, whose series are those of "Can't Be Late"
(Wu et al., NSDI'24). The six, V100 in us-east-2a and us-west-2, chose nothing: the chain's
constants were chosen on `CHOSEN_ON`, of us-east-1, us-east-2b and other instances. "all" are all of
CHECKOUT, counts of 4 and 16 instances clipped to one, and the joint records of FOLDER at their own
prices.

| kind | jobs |
| --- | --- |
| cost | those of `cant_be_late.py`; mean USD, at 52 h also without a past (the series begins with the job) |
| utility | those of `job_lengths.py` with one GPU; mean utility / mean utility of the optimum, and shares late |

"law of the series" is the robust policy with the chain fitted to the whole series, its future
included: what robust is behind it is lost by not knowing the law. With "any risk" it need not be on
time. "drawn from the law" is the same policy, which is then the best that is never late, on series
drawn from that chain: what it is behind the optimum is lost by not knowing the future, and what the
law of the series is behind it by all that no stationary chain says. Starts are spread over each
series, one at random in each of N equal parts, after a day; a series with fewer slots to start in,
or without a change after that day, is left out.
"""  # noqa: E501

import argparse
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

import cant_be_late
import job_lengths
from auctune.numerics.arrays import Floats
from auctune.numerics.estimates import mean_of
from auctune.numerics.rng import stream
from auctune.sim.spot.importers import import_series
from auctune.sim.spot.trace import (
    FromFile,
    MarketRecipe,
    read_market,
    slot_counts,
    whole_slots,
)
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
CHOSEN_ON = (
    "availability/1-node/*/us-east-1?_v100_1",
    "availability/1-node/*/us-east-2b_v100_1",
    "availability/1-node/*/us-west-2?_k80_?",
    "availability/1-node/*/us-west-2?_v100_8",
)
K80_ON_DEMAND = 0.9
HOURS = (5, 18, 48, 70, 92)
GOAL = 0.97
DAY = 86_400
POLICIES: Mapping[str, Policy] = {
    "UP": UniformProgress(),
    "greedy": SpotFirst(),
    "robust": Robust(),
}
RISKY = {"robust(risk=0.05)": Robust(risk=0.05)}
ROBUST, ON_TIME = "robust", "optimum on time"
WHOLE, WHOLE_RISKY, DRAWN = "law of the series", "law, any risk", "drawn from the law"
# That tell how long spot has been there.
_RECENT = 100


class WholeSeries:
    """A forecaster that counts the changes of a whole series, whatever the present slot.

    What it forecasts may be another series, of the same law.
    """

    def __init__(self, market: SpotMarket) -> None:
        self._market, self._chain = market, MarkovChain(refit=market.num_slots)

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        """Forecast after the past, by the law of all slots: the past follows the whole series."""
        # Shorter than the series, so that its slots are not counted.
        recent = slice(-min(_RECENT, self._market.num_slots - 1), None)
        all_slots = SpotMarket(
            np.concatenate((self._market.price, past.price[recent])),
            np.concatenate((self._market.available, past.available[recent])),
            past.on_demand_price,
            past.slot_seconds,
        )
        return self._chain.forecast(all_slots, num_slots)


def read(path: Path, slot_seconds: float) -> SpotMarket:
    """Return a series at the constant price of `cant_be_late.py`."""
    trace = import_series(path, "available", 1)
    count = slot_counts(trace, 0.0, slot_seconds, whole_slots(trace, 0.0, slot_seconds))
    price = cant_be_late.SPOT / cant_be_late.ON_DEMAND
    return SpotMarket(np.full(len(count), price), np.minimum(count, 1), 1.0, slot_seconds)


def read_joint(path: Path, slot_seconds: float) -> SpotMarket:
    """Return a record of K80 at its own prices, clipped to one instance."""
    recipe = MarketRecipe(
        available=FromFile(path), on_demand_price=K80_ON_DEMAND, slot_seconds=slot_seconds
    )
    market = read_market(recipe)
    return SpotMarket(market.price, np.minimum(market.available, 1), 1.0, slot_seconds)


def read_six(checkout: Path, slot_seconds: float) -> dict[str, SpotMarket]:
    """Return those that the cost is measured on."""
    folder = checkout / "availability" / "1-node"
    return {name: read(folder / f"{name}_v100_1.json", slot_seconds) for name in SERIES}


def read_all(checkout: Path, records: Path | None, slot_seconds: float) -> dict[str, SpotMarket]:
    """Return all series of a checkout by their path, and the joint records of a folder."""
    paths = sorted(checkout.glob("*/*-node/*/*.json"))
    found = {
        str(path.relative_to(checkout).with_suffix("")): read(path, slot_seconds) for path in paths
    }
    joint = [] if records is None else sorted(records.glob("*_joint.csv"))
    return {**found, **{path.stem: read_joint(path, slot_seconds) for path in joint}}


def is_chosen_on(name: str) -> bool:
    """Return whether a series of `read_all` chose the chain's constants."""
    return any(fnmatch(name, pattern) for pattern in CHOSEN_ON)


def can_start(market: SpotMarket, job: SpotJob, num_jobs: int) -> bool:
    """Return whether as many jobs can start in different slots, on a series that changes."""
    first = round(DAY / market.slot_seconds)
    changes = bool(np.diff(market.available[first:]).any())
    return changes and market.num_slots - job.deadline - first >= num_jobs


def spread_starts(market: SpotMarket, job: SpotJob, num_jobs: int) -> Iterator[int]:
    """Yield a random start in each of as many equal parts of a series."""
    first = round(DAY / market.slot_seconds)
    share = (np.arange(num_jobs) + stream(job.deadline, "starts").uniform(size=num_jobs)) / num_jobs
    yield from (first + (share * (market.num_slots - job.deadline - first))).astype(int).tolist()


def draw_series(market: SpotMarket, num_slots: int) -> SpotMarket:
    """Return a series drawn from the chain of a whole series."""
    chain = WholeSeries(market).forecast(market, 1).chain
    assert chain is not None
    reached, state = np.cumsum(chain.transition, axis=1), chain.present
    states = np.empty(num_slots, dtype=np.int64)
    for slot, chance in enumerate(stream(0, "drawn").uniform(size=num_slots)):
        state = states[slot] = int(np.searchsorted(reached[state, :-1], chance, "right"))
    price, available = chain.price[states], chain.available[states]
    return SpotMarket(price, available, market.on_demand_price, market.slot_seconds)


def measure(
    market: SpotMarket,
    job: SpotJob,
    num_jobs: int,
    *,
    has_past: bool = True,
    policies: Mapping[str, Policy] = POLICIES,
    knowing: Mapping[str, Policy] | None = None,
    law: WholeSeries | None = None,
) -> Mapping[str, Floats]:
    """Return [j] utilities by policy, and [j] whether each was late as "NAME late".

    Args:
        market: the series.
        job: to be run.
        num_jobs: starts in it.
        has_past: whether forecasts know what was before the job.
        policies: with forecasts of the past, and without where they need none.
        knowing: policies that know the law; by default the robust one.
        law: that they know; by default that of the series.
    """
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

    chain, law = MarkovChain(), law or WholeSeries(market)
    knowing = {WHOLE: policies[ROBUST]} if knowing is None else knowing
    for start in spread_starts(market, job, num_jobs):
        slots = market.between(start, start + job.deadline)
        found.setdefault("optimum", []).append(offline_optimum(job, slots).utility)
        on_time = offline_optimum(job, slots, on_time=True)
        found.setdefault(ON_TIME, []).append(on_time.utility)
        for name, policy in policies.items():
            record(name, policy, start, chain if policy.horizon is None else None)
        for name, policy in knowing.items() if has_past else ():
            record(name, policy, start, law)
    return {name: np.array(values, dtype=np.float64) for name, values in found.items()}


def print_costs(checkout: Path, num_jobs: int) -> None:
    """Print mean costs in USD over the six series, and differences on the same jobs."""
    usd = cant_be_late.ON_DEMAND * cant_be_late.SLOT_SECONDS / 3600
    markets = read_six(checkout, cant_be_late.SLOT_SECONDS).values()
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


class Cell(NamedTuple):
    """A job at many moments of a series.

    Attributes:
        hours: of the job.
        series: its name.
        share: by policy, mean utility / mean utility of the optimum.
        late: by policy, how many jobs were late.
        num_jobs: of all.
    """

    hours: int
    series: str
    share: Mapping[str, float]
    late: Mapping[str, int]
    num_jobs: int

    def text(self) -> str:
        """Return what each policy made of it."""
        shares = [
            f"{name} {share:.1%}" + (f", late {self.late[name]}" if self.late.get(name) else "")
            for name, share in self.share.items()
        ]
        return f"{self.hours} h, {self.series}: {'; '.join(shares)}"

    def misses(self) -> str:
        """Return what robust misses and why, in points of the optimum."""
        known, free = self.share[WHOLE], self.share[WHOLE_RISKY]
        law, care, rest = known - self.share[ROBUST], free - known, 1 - free
        return (
            f"{self.hours} h, {self.series}: {self.share[ROBUST]:.1%}; "
            f"by the law {100 * law:+.1f}, never being late {100 * care:+.1f}, "
            f"the rest {100 * rest:+.1f}"
        )


def cell_of(series: str, market: SpotMarket, hours: int, num_jobs: int) -> Cell:
    """Return what all policies make of a series."""
    job = job_lengths.job(hours, 1)
    knowing = {WHOLE: POLICIES[ROBUST], WHOLE_RISKY: Robust(risk=1.0)}
    policies = {**POLICIES, **RISKY}
    found = dict(measure(market, job, num_jobs, policies=policies, knowing=knowing))
    shares = {
        name: float(found[name].sum() / found["optimum"].sum())
        for name in (ON_TIME, *policies, *knowing)
    }
    late = {name: int(found[f"{name} late"].sum()) for name in (*policies, *knowing)}
    # So long that jobs do not overlap.
    day = round(DAY / market.slot_seconds)
    drawn = measure(
        draw_series(market, day + (num_jobs + 1) * job.deadline),
        job,
        num_jobs,
        policies={},
        knowing={DRAWN: POLICIES[ROBUST]},
        law=WholeSeries(market),
    )
    shares[DRAWN] = float(drawn[DRAWN].sum() / drawn["optimum"].sum())
    return Cell(hours, series, shares, late, num_jobs)


def print_utilities(markets: Mapping[str, SpotMarket], num_jobs: int) -> None:
    """Print each series' utility over the optimum's, by length, and who was late."""
    groups: dict[bool, list[Cell]] = {False: [], True: []}
    for hours in HOURS:
        for series, market in markets.items():
            if can_start(market, job_lengths.job(hours, 1), num_jobs):
                cell = cell_of(series, market, hours, num_jobs)
                groups[is_chosen_on(series)].append(cell)
                print(cell.text(), flush=True)
    for chosen_on, cells in groups.items():
        if cells:
            title = "series that chose the chain's constants" if chosen_on else "other series"
            print(f"\n{title}, {len({cell.series for cell in cells})}:")
            print_summary(cells)


def print_summary(cells: Sequence[Cell]) -> None:
    """Print shares by policy and length, who was late, and why cells are below the goal."""
    for name in cells[0].share:
        own = [cell.share[name] for cell in cells]
        reached = sum(share >= GOAL for share in own)
        line = (
            f"{name}: {reached} of {len(own)} cells at {GOAL:.0%}, "
            f"least {min(own):.1%}, mean {np.mean(own):.1%}"
        )
        if name in cells[0].late:
            late, jobs = (
                sum(cell.late[name] for cell in cells),
                sum(cell.num_jobs for cell in cells),
            )
            interval = stats.binomtest(late, jobs).proportion_ci()
            line += f"; late {late} of {jobs} ({interval.low:.2%} to {interval.high:.2%})"
        print(f"  {line}")
    names = (ROBUST, WHOLE, WHOLE_RISKY, DRAWN)
    for hours in sorted({cell.hours for cell in cells}):
        shares = [cell.share for cell in cells if cell.hours == hours]
        reached = sum(share[ROBUST] >= GOAL for share in shares)
        means = [f"{name} {np.mean([share[name] for share in shares]):.1%}" for name in names]
        print(f"  {hours} h: {ROBUST} {reached} of {len(shares)}; means: {', '.join(means)}")
    print(f"  {ROBUST} below {GOAL:.0%}:")
    for cell in sorted(cells, key=lambda cell: cell.share[ROBUST]):
        if cell.share[ROBUST] < GOAL:
            print(f"    {cell.misses()}")


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--jobs", type=int, default=8, help="of each series (%(default)s)")
    parser.add_argument("--kind", choices=("cost", "utility"), default="cost")
    parser.add_argument("--series", choices=("six", "all"), default="six", help="of utility")
    parser.add_argument("--records", type=Path, help="folder with joint records, for all series")
    options = parser.parse_args()
    if options.kind == "cost":
        print_costs(options.checkout, options.jobs)
    elif options.series == "six":
        print_utilities(read_six(options.checkout, job_lengths.SLOT_SECONDS), options.jobs)
    else:
        series = read_all(options.checkout, options.records, job_lengths.SLOT_SECONDS)
        print_utilities(series, options.jobs)


if __name__ == "__main__":
    main()
