"""Where the line of even progress is read: at a slot's end or at its start, AHAP and AHANP.

The settings of Figures 5 to 8, with perfect forecasts. For each line stand the AHAP of the paper's
105 and the AHANP of its 7 with the highest mean utility in that setting, beside the baselines.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import polars as pl
from rich.console import Console

import fig05_deadlines
import fig06_overhead
import fig07_availability
import fig08_prices
from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.spot import (
    Ahanp,
    Ahap,
    OnDemandOnly,
    Policy,
    SpotFirst,
    UniformProgress,
    default_pool,
)
from auctune.spot.deadline import ProgressLine
from spot_harness.markets import Markets
from spot_harness.options import Figure, Options, main
from spot_harness.sweeps import Setting
from spot_harness.trials import perfect_tables, same_job

NAME = "progress_line"
TITLE = "The line of even progress: utility / optimum, perfect forecasts"
LINES: tuple[ProgressLine, ...] = ("slot_end", "slot_start")
BASELINES: dict[str, Policy] = {
    "UP": UniformProgress(),
    "MSU": SpotFirst(),
    "OD-Only": OnDemandOnly(),
}
GOAL = 0.95


def settings(markets: Markets) -> Iterator[tuple[str, Setting]]:
    """Each setting of Figures 5 to 8, with its figure's number."""
    figures = (fig05_deadlines, fig06_overhead, fig07_availability, fig08_prices)
    for number, figure in enumerate(figures, start=5):
        for setting in figure.settings(markets):
            yield str(number), setting


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row for each setting and policy."""
    rows: list[Mapping[str, object]] = []
    for markets in options.all_markets():
        for number, setting in settings(markets):
            with console.status(f"{NAME}: {markets.name}, figure {number}, {setting.label}"):
                named = {"market": markets.name, "figure": number, "setting": setting.label}
                rows += [{**named, **row} for row in _played(setting, options)]
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [*notes(frame), f"data and charts: {options.out}"])
    return frame


def _played(setting: Setting, options: Options) -> Iterator[Mapping[str, object]]:
    trials = same_job(setting.markets, setting.job, options.jobs, options.seed)
    optimum = float(trials.optimum().mean())
    ahap = [one for one in default_pool() if isinstance(one, Ahap)]
    ahanp = [one for one in default_pool() if isinstance(one, Ahanp)]
    pools: dict[str, list[Policy]] = {
        **{f"AHAP, {line}": [replace(one, line=line) for one in ahap] for line in LINES},
        **{f"AHANP, {line}": [replace(one, line=line) for one in ahanp] for line in LINES},
        **{name: [policy] for name, policy in BASELINES.items()},
    }
    everybody = [policy for pool in pools.values() for policy in pool]
    mean = trials.utility(everybody, perfect_tables(trials.markets)).mean(axis=0)
    first = 0
    for series, pool in pools.items():
        best = first + int(np.argmax(mean[first : first + len(pool)]))
        yield {
            "series": series,
            "policy": everybody[best].name,
            "jobs": options.jobs,
            "utility": float(mean[best]),
            "ratio": float(mean[best]) / optimum,
        }
        first += len(pool)


def chart(frame: pl.DataFrame) -> AnyChart:
    """A panel for each kind of markets; what is worth nothing on average lies below it."""
    panels = []
    for market in frame["market"].unique(maintain_order=True):
        rows = frame.filter((pl.col("market") == market) & (pl.col("ratio") > 0))
        values = [
            Interval(f"{row['figure']}: {row['setting']}", row["series"], *[row["ratio"]] * 3)
            for row in rows.iter_rows(named=True)
        ]
        panels.append(Panel(f"utility / optimum, {market}", values, "dots", ".0%"))
    return estimates_chart(panels, axis="figure and setting")


def table(frame: pl.DataFrame) -> Rows:
    """A row for each setting."""
    series = frame["series"].unique(maintain_order=True).to_list()
    rows: list[tuple[str, ...]] = []
    for market in frame["market"].unique(maintain_order=True):
        rows.append((f"{market}:", "", *("" for _ in series)))
        own = frame.filter(pl.col("market") == market)
        for (figure, setting), cells in own.group_by("figure", "setting", maintain_order=True):
            found = dict(zip(cells["series"], cells["ratio"], strict=True))
            rows.append((str(figure), str(setting), *(f"{found[name]:.1%}" for name in series)))
    return Rows(("figure", "setting", *series), tuple(rows))


def notes(frame: pl.DataFrame) -> list[str]:
    """In how many settings each AHAP is ahead of all others, and near the optimum."""
    wide = frame.pivot("series", index=["market", "figure", "setting"], values="ratio")
    said = [f"{frame['jobs'][0]} jobs in each of {len(wide)} settings"]
    for line in LINES:
        own = wide[f"AHAP, {line}"].to_numpy()
        others = wide.select(f"AHANP, {line}", *BASELINES).to_numpy().max(axis=1)
        said.append(
            f"AHAP, {line}: at or above AHANP, {line} and every baseline in "
            f"{(own >= others).sum()}, at {GOAL:.0%} of the optimum or more in "
            f"{(own >= GOAL).sum()}; the least is {own.min():.1%}"
        )
    late, early = (wide[f"AHANP, {line}"].to_numpy() for line in LINES)
    said.append(
        f"AHANP: slot_end is better in {(late > early).sum()}; mean of all settings: "
        f"slot_end {late.mean():.1%}, slot_start {early.mean():.1%}"
    )
    return said


FIGURE = Figure(NAME, run, table, notes)

if __name__ == "__main__":
    main(FIGURE, __doc__)
