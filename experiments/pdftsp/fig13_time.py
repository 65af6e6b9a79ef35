"""Figure 13: time to decide a task at 100 nodes, pdFTSP and Titan.

Titan's program decides all bids of a slot: its time is divided by their number, as in the paper.
Markets are run one after the other, whatever --workers says: two at a time would measure each
other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.numerics.estimates import mean_of
from harness.jobs import run_jobs
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
    "series": pl.String,
    "seconds_per_task": pl.Float64,
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
    panel = Panel("microseconds a task", _estimates(frame), "log dots", "~s")
    return estimates_chart([panel], axis="Poisson arrivals, 144 slots where nothing else is said")


def table(frame: pl.DataFrame) -> Rows:
    """A row a mechanism."""
    cells = {(one.setting, one.series): one for one in _estimates(frame)}
    settings = list(dict.fromkeys(setting for setting, _ in cells))
    series = list(dict.fromkeys(name for _, name in cells))
    rows = [
        (name, *(f"{cells[setting, name].mean:,.0f} us" for setting in settings)) for name in series
    ]
    return Rows(("time to decide a task", *settings), tuple(rows))


def _rows(trial: Trial, result: Mapping[str, float]) -> list[dict[str, object]]:
    own = {"figure": NAME, "setting": trial.setting.label, "seed": trial.seed}
    times = {name_of(trial.mechanism): result["decision_mean_s"]}
    if trial.mechanism == LEARNED:
        learning = result["learning_s"] / max(1, result["num_tasks"])
        times[WITH_LEARNING] = result["decision_mean_s"] + learning
    return [
        {**own, "series": name, "seconds_per_task": seconds, "num_tasks": result["num_tasks"]}
        for name, seconds in times.items()
    ]


def _estimates(frame: pl.DataFrame) -> list[Interval]:
    groups = frame.group_by("setting", "series", maintain_order=True).agg("seconds_per_task")
    found = []
    for row in groups.iter_rows(named=True):
        one = mean_of([1e6 * seconds for seconds in row["seconds_per_task"]])
        found.append(Interval(row["setting"], row["series"], one.value, one.low, one.high))
    return found


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
