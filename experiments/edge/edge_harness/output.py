"""Figures of means over seeds, by setting and mechanism."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Estimate, Line, Panel, estimates_chart
from auctune.sim.figures import Rows, show, write_chart, write_data
from edge_harness.options import Figure, Options
from edge_harness.trials import Point, collect


@dataclass(frozen=True, slots=True)
class Shown:
    """A quantity of a figure: a column of the trials.

    Attributes:
        column: which.
        title: of its axis.
        line: drawn across, if any.
    """

    column: str
    title: str
    line: Line | None = None


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
        shown: a panel each; the first one is the table.
        bound: of welfare, that the trials need.
        more: adds columns.
    """

    def table(frame: pl.DataFrame) -> Rows:
        return means_table(axis, _means(frame, shown[0].column))

    def run(options: Options, console: Console) -> pl.DataFrame:
        frame = write_data(more(collect(points, options, console, bound)), options.out, name)
        panels = [Panel(one.title, _means(frame, one.column), line=one.line) for one in shown]
        write_chart(estimates_chart(panels, axis=axis), options.out, name)
        head = f"{title}: {shown[0].title}"
        show(console, head, table(frame), [f"data and charts: {options.out}"])
        return frame

    return Figure(name, run, table)


def means_table(axis: str, means: Sequence[Estimate]) -> Rows:
    """A row a mechanism, a column a setting."""
    settings = tuple(dict.fromkeys(one.setting for one in means))
    series = dict.fromkeys(one.series for one in means)
    cells = {(one.setting, one.series): one for one in means}
    rows = ((name, *(_cell(cells[setting, name]) for setting in settings)) for name in series)
    return Rows((axis or "mechanism", *settings), tuple(rows))


def _cell(one: Estimate) -> str:
    half = one.high - one.mean
    digits = 0 if one.mean >= 1000 else 2
    return f"{one.mean:,.{digits}f}" + (f" ±{half:,.{digits}f}" if half else "")


def _means(frame: pl.DataFrame, column: str) -> list[Estimate]:
    means = []
    for (setting, name), group in frame.group_by("setting", "mechanism", maintain_order=True):
        values = group[column].to_list()
        mean = statistics.fmean(values)
        half = 0.0
        if len(values) > 1:
            half = 2 * statistics.stdev(values) / math.sqrt(len(values))
        means.append(Estimate(str(setting), str(name), mean, mean - half, mean + half))
    return means
