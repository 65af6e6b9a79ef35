"""Figures of means over seeds, by setting and mechanism."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.sim.figures import Rows, show, write_chart, write_data
from edge_harness.options import Figure, Options
from edge_harness.trials import Point, collect


@dataclass(frozen=True, slots=True)
class Shown:
    """A quantity of a figure: a column of the trials.

    Attributes:
        column: which.
        title: of its axis.
        tabled: whether the table has it too; it always has the first one.
    """

    column: str
    title: str
    tabled: bool = False


def trials_figure(
    name: str,
    title: str,
    axis: str,
    points: Sequence[Point],
    shown: Sequence[Shown],
    bound: str = "none",
    more: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
) -> Figure:
    """A figure of means over seeds by setting and mechanism, each with two standard errors.

    Args:
        name: of its files.
        title: of its table.
        axis: what differs between settings.
        points: the settings.
        shown: a panel each; the table has the first one and those that are `tabled`, and of the
            last of these the differences between the first mechanism and each other on the same
            jobs.
        bound: of welfare, that the trials need.
        more: adds columns.
    """
    tabled = [shown[0], *(one for one in shown[1:] if one.tabled)]

    def table(frame: pl.DataFrame) -> Rows:
        estimates: list[Interval] = []
        for index, one in enumerate(tabled):
            estimates += _means(frame, one.column, f", {one.title}" if index else "")
        return means_table(axis, estimates + _differences(frame, tabled[-1]))

    def run(options: Options, console: Console) -> pl.DataFrame:
        frame = write_data(more(collect(points, options, console, bound)), options.out, name)
        panels = [Panel(one.title, _means(frame, one.column)) for one in shown]
        write_chart(estimates_chart(panels, axis=axis), options.out, name)
        head = f"{title}: {shown[0].title}"
        show(console, head, table(frame), [f"data and charts: {options.out}"])
        return frame

    return Figure(name, run, table)


def means_table(axis: str, means: Sequence[Interval]) -> Rows:
    """A row a mechanism, a column a setting."""
    settings = tuple(dict.fromkeys(one.setting for one in means))
    series = dict.fromkeys(one.series for one in means)
    cells = {(one.setting, one.series): one for one in means}
    rows = ((name, *(_cell(cells[setting, name]) for setting in settings)) for name in series)
    return Rows((axis or "mechanism", *settings), tuple(rows))


def _cell(one: Interval) -> str:
    half = one.high - one.mean
    digits = 0 if abs(one.mean) >= 1000 else 2
    return f"{one.mean:,.{digits}f}" + (f" ±{half:,.{digits}f}" if half else "")


def _means(frame: pl.DataFrame, column: str, suffix: str = "") -> list[Interval]:
    groups = frame.group_by("setting", "mechanism", maintain_order=True)
    return [
        mean_estimate(str(setting), f"{name}{suffix}", group[column].to_list())
        for (setting, name), group in groups
    ]


def _differences(frame: pl.DataFrame, shown: Shown) -> list[Interval]:
    """Means over seeds of the first mechanism less each other, in each setting."""
    estimates = []
    for (setting,), group in frame.group_by(["setting"], maintain_order=True):
        wide = group.pivot("mechanism", index="seed", values=shown.column, maintain_order=True)
        _, first, *others = wide.columns
        estimates += [
            mean_estimate(
                str(setting), f"{first} less {name}", (wide[first] - wide[name]).to_list()
            )
            for name in others
        ]
    return estimates


def mean_estimate(setting: str, series: str, values: Sequence[float]) -> Interval:
    """A mean with two standard errors."""
    mean = statistics.fmean(values)
    half = 0.0
    if len(values) > 1:
        half = 2 * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(setting, series, mean, mean - half, mean + half)
