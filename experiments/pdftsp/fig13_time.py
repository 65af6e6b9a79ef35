"""Figure 13: time to decide a task at 100 nodes, pdFTSP and Titan.

Titan's program decides all bids of a slot: its time is divided by their number, as in the paper.
Markets are run one after the other, whatever --workers says: two at a time would measure each
other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.jobs import run_jobs
from auctune.sim.sweep import Sweep, intervals, table_of
from harness.market import setting
from harness.options import Options
from harness.output import Figure, Rows, main, show, write_chart, write_data
from harness.trials import LEARNED, Trial, name_of

NAME = "fig13_time"
NODES = {"nodes": "a100:100"}
SETTINGS = [
    setting("30 bids a slot", {**NODES, "rate": "30"}),
    setting("50", {**NODES, "rate": "50"}),
    setting("80", {**NODES, "rate": "80"}),
    setting("50, 72 slots", {**NODES, "slots": "72"}),
    setting("50, 288 slots", {**NODES, "slots": "288"}),
]
MECHANISMS = (LEARNED, "titan")
WITH_LEARNING = f"{name_of(LEARNED)}, learning included"
SCHEMA = {
    "figure": pl.String,
    "setting": pl.String,
    "seed": pl.Int64,
    "entry": pl.String,
    "microseconds": pl.Float64,
    "num_tasks": pl.Int64,
}


@dataclass(frozen=True, slots=True)
class TimedTrial(Trial):
    """A trial that had the computer to itself."""

    def key(self) -> dict[str, object]:
        """As a trial's, but never the same."""
        return {**Trial.key(self), "alone": True}


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data."""
    trials = [
        TimedTrial(one, seed, mechanism)
        for one in options.settings(SETTINGS)
        for mechanism in MECHANISMS
        for seed in range(min(options.seeds, 3))
    ]
    alone = replace(options, workers=1)
    results = run_jobs(trials, alone.cache, workers=1, console=console, fresh=alone.fresh)
    rows = [
        row for trial, result in zip(trials, results, strict=True) for row in _rows(trial, result)
    ]
    frame = write_data(pl.DataFrame(rows, schema=SCHEMA), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, "Figure 13: time to decide a task", table(frame), [f"data: {options.out}"])
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """A dot a mechanism at each setting, on a logarithmic axis."""
    panel = Panel(
        "microseconds a task", intervals(Sweep(frame).means("microseconds")), "log dots", "~s"
    )
    return estimates_chart([panel], axis="Poisson arrivals, 144 slots where nothing else is said")


def table(frame: pl.DataFrame) -> Rows:
    """A row a mechanism."""
    sweep = Sweep(frame)
    cells = sweep.means("microseconds")

    def time(name: str) -> Callable[[str], str]:
        return lambda setting: f"{cells[setting, name].value:,.0f} us"

    lines = {name: time(name) for name in sweep.entries}
    return table_of("time to decide a task", sweep.settings, lines)


def _rows(trial: Trial, result: Mapping[str, float]) -> list[dict[str, object]]:
    own = {"figure": NAME, "setting": trial.setting.label, "seed": trial.seed}
    times = {name_of(trial.mechanism): result["decision_mean_s"]}
    if trial.mechanism == LEARNED:
        learning = result["learning_s"] / max(1, result["num_tasks"])
        times[WITH_LEARNING] = result["decision_mean_s"] + learning
    return [
        {**own, "entry": name, "microseconds": 1e6 * seconds, "num_tasks": result["num_tasks"]}
        for name, seconds in times.items()
    ]


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
