"""The setting of "Can't Be Late" (Wu et al., NSDI'24): one instance, a hard deadline, least cost.

A job needs 48 h on one V100. A slot is 600 s, an instance that is started works after 720 s, a spot
instance is there or is not, on-demand costs 3.06 USD an hour and spot 0.9731. To be late is worth
nothing, so what counts is the cost of being on time. The traces of that paper are not here. In
their place are series on which spot comes and goes at random with a mean availability and a mean
time up (`AVAILABILITY`, `UP_HOURS`), and with --data the record of 16 V100 instances, where an
instance is there if any of the 16 is. The published figures beside them are means over 300 traces
of one V100 in us-west-2a.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.estimates import Estimate, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.numerics.rng import stream
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.spot.statistics import mean_of
from auctune.sim.spot.trace import FixedPrice, FromFile, MarketRecipe, read_market
from auctune.sim.spot.trials import COUNTS
from auctune.spot import (
    InstanceStart,
    OnDemandOnly,
    Policy,
    Robust,
    SpotFirst,
    SpotJob,
    SpotMarket,
    UniformProgress,
)
from auctune.spot.forecasts import ForecastTable, SeasonalNaive
from spot_harness.markets import Markets
from spot_harness.options import Figure, Options, main
from spot_harness.trials import Trials, same_job

NAME = "cant_be_late"
TITLE = "Can't Be Late: USD a job, mean ± 95% confidence"
SLOT_SECONDS, START_SECONDS = 600.0, 720.0
ON_DEMAND, SPOT = 3.06, 0.9731
WORK_HOURS = 48
DEADLINE_HOURS = (52, 70, 92)
PUBLISHED: Mapping[str, Sequence[float]] = {
    "optimum": (83.9, 61.6, 49.2),
    "UP": (107.3, 72.5, 60.6),
    "greedy": (120.6, 87.2, 52.0),
    "on-demand": (147.9, 147.9, 147.9),
}
# Of the generated series: with these the optimum comes near the published one.
AVAILABILITY, UP_HOURS = 0.65, 6.0
_SERIES, _DAYS = 20, 30
# It plans to the deadline anew in each slot.
_ROBUST_JOBS = 4


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A way of renting.

    Attributes:
        name: as tables show it.
        policy: that it is.
        most_jobs: fewer than the others, where it is slow; None: as many.
    """

    name: str
    policy: Policy
    most_jobs: int | None = None


MECHANISMS = (
    Mechanism("UP", UniformProgress()),
    Mechanism("greedy", SpotFirst()),
    Mechanism("on-demand", OnDemandOnly()),
    Mechanism("robust(risk=0.05)", Robust(risk=0.05), _ROBUST_JOBS),
)


def job(deadline_hours: int) -> SpotJob:
    """Return the job; its value is far above any cost, and nothing is left of it after d."""
    slots_an_hour = 3600 / SLOT_SECONDS
    work = WORK_HOURS * slots_an_hour
    return SpotJob(
        workload=work,
        deadline=round(deadline_hours * slots_an_hour),
        hard_factor=1.0,
        value=10 * work,
        n_max=1,
        overhead=InstanceStart(START_SECONDS / SLOT_SECONDS),
    )


def on_and_off(availability: float, up_hours: float, num_slots: int, seed: int) -> SpotMarket:
    """Return a market whose one instance comes and goes, each time for a geometric time."""
    random = stream(seed, "on and off")
    leave = SLOT_SECONDS / (3600 * up_hours)
    come = leave * availability / (1 - availability)
    there = random.uniform() < availability
    available = np.zeros(num_slots, dtype=np.int64)
    for slot, chance in enumerate(random.uniform(size=num_slots)):
        available[slot] = there
        there = chance >= leave if there else chance < come
    return SpotMarket(np.full(num_slots, SPOT / ON_DEMAND), available, 1.0, SLOT_SECONDS)


def generated(seed: int, count: int = _SERIES) -> Markets:
    """Return series that come and go at random."""
    num_slots = round(_DAYS * 86_400 / SLOT_SECONDS)
    series = (
        on_and_off(AVAILABILITY, UP_HOURS, num_slots, 1000 * seed + index) for index in range(count)
    )
    return Markets(f"generated, {AVAILABILITY:.0%} up for {UP_HOURS:g} h", tuple(series))


def recorded(folder: Path) -> Markets:
    """Return the record of 16 instances as one instance, there if any of them is."""
    recipe = MarketRecipe(
        available=FromFile(folder / COUNTS),
        price=FixedPrice(SPOT),
        on_demand_price=ON_DEMAND,
        slot_seconds=SLOT_SECONDS,
    )
    market = read_market(recipe)
    one = np.minimum(market.available, 1)
    return Markets("record", (SpotMarket(market.price, one, 1.0, SLOT_SECONDS),))


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a market, deadline and mechanism."""
    markets = [generated(options.seed, 1 if options.quick else _SERIES)]
    markets += [recorded(options.data)] if options.data is not None else []
    rows = []
    for one in markets:
        for hours in DEADLINE_HOURS:
            with console.status(f"{NAME}: {one.name}, {hours} h"):
                trials = same_job(one, job(hours), options.jobs, options.seed)
                rows += _measured(one.name, hours, trials, options.quick)
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), notes(frame, options))
    return frame


def _measured(
    market: str, hours: int, trials: Trials, quick: bool
) -> list[Mapping[str, float | str]]:
    value = trials.jobs[0].value
    cost = {"optimum": value - trials.optimum()}
    late = {"optimum": 0.0}
    for one in MECHANISMS:
        if quick and one.most_jobs is not None:
            continue
        own = trials.first(one.most_jobs or len(trials.jobs))
        deadline = own.jobs[0].deadline
        forecasts: Sequence[ForecastTable | None] = [None] * len(own.jobs)
        if one.policy.horizon is None:
            forecasts = own.predicted(lambda _: SeasonalNaive(1, 1), deadline - 1)
        outcome = own.outcome([one.policy], forecasts)
        cost[one.name] = outcome.cost[:, 0]
        late[one.name] = float((outcome.finish[:, 0] > deadline + 1e-9).mean())
    usd = ON_DEMAND * SLOT_SECONDS / 3600
    means = {name: mean_of(usd * of) for name, of in cost.items()}
    return [
        {
            "market": market,
            "hours": hours,
            "mechanism": name,
            "jobs": len(cost[name]),
            "usd": mean.value,
            "half": mean.half_width or 0.0,
            "late": late[name],
        }
        for name, mean in means.items()
    ]


def chart(frame: pl.DataFrame) -> AnyChart:
    """A panel for each market."""
    panels = []
    for market in frame["market"].unique(maintain_order=True):
        values = [
            Estimate(
                f"{row['hours']} h",
                row["mechanism"],
                row["usd"],
                row["usd"] - row["half"],
                row["usd"] + row["half"],
            )
            for row in frame.filter(pl.col("market") == market).iter_rows(named=True)
        ]
        panels.append(Panel(f"USD a job, {market}", values, "dots", ".0f"))
    return estimates_chart(panels, axis="deadline")


def table(frame: pl.DataFrame) -> Rows:
    """For each market a row a mechanism, after the published ones."""
    rows = [("published:", *("" for _ in DEADLINE_HOURS))]
    rows += [(name, *(f"{usd:.1f}" for usd in published)) for name, published in PUBLISHED.items()]
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter(pl.col("market") == market)
        cells = {(row["mechanism"], row["hours"]): row for row in own.iter_rows(named=True)}
        rows.append((f"{market}:", *("" for _ in DEADLINE_HOURS)))
        rows += [
            (name, *(_cell(cells[name, hours]) for hours in DEADLINE_HOURS))
            for name in own["mechanism"].unique(maintain_order=True)
        ]
    return Rows(("", *(f"{hours} h" for hours in DEADLINE_HOURS)), tuple(rows))


def _cell(row: Mapping[str, float]) -> str:
    late = f", {row['late']:.0%} late" if row["late"] else ""
    return f"{row['usd']:.1f} ±{row['half']:.1f}{late}"


def notes(frame: pl.DataFrame, options: Options) -> list[str]:
    """How many jobs."""
    counts = frame.group_by("mechanism", maintain_order=True).agg(pl.col("jobs").first())
    jobs = ", ".join(f"{name} {count}" for name, count in counts.iter_rows())
    return [f"jobs: {jobs}; seed {options.seed}", f"data and charts: {options.out}"]


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
