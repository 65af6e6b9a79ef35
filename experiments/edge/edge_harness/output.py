"""Figures of means over seeds, by setting and mechanism."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Panel, estimates_chart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.sweep import Cells, Sweep, intervals, table_of
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
    """A figure of means over seeds by setting and mechanism, each with its interval.

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
        sweep = Sweep(frame)
        lines: dict[str, Callable[[str], str]] = {}
        for index, one in enumerate(tabled):
            means = sweep.means(one.column)
            suffix = f", {one.title}" if index else ""
            lines |= {f"{name}{suffix}": number(means, name) for name in sweep.entries}
        first, *others = sweep.entries
        leads = sweep.leads(tabled[-1].column, first)
        lines |= {f"{first} less {name}": number(leads, name) for name in others}
        return table_of(axis or "mechanism", sweep.settings, lines)

    def run(options: Options, console: Console) -> pl.DataFrame:
        frame = write_data(more(collect(points, options, console, bound)), options.out, name)
        sweep = Sweep(frame)
        panels = [Panel(one.title, intervals(sweep.means(one.column))) for one in shown]
        write_chart(estimates_chart(panels, axis=axis), options.out, name)
        head = f"{title}: {shown[0].title}"
        show(console, head, table(frame), [f"data and charts: {options.out}"])
        return frame

    return Figure(name, run, table)


def number(cells: Cells, entry: str) -> Callable[[str], str]:
    """Return how a line writes its cells: large numbers without decimals."""

    def text(setting: str) -> str:
        one = cells.get((setting, entry))
        if one is None:
            return "-"
        return one.text(",.0f" if abs(one.value) >= 1000 else ",.2f")

    return text
