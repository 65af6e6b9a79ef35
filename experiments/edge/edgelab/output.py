"""Data as parquet, charts as SVG and PNG, tables on the terminal."""

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from auctune.charts.estimates import Estimate, Line, Panel, estimates_chart
from auctune.charts.palette import LIGHT
from auctune.charts.render import to_png, to_svg
from auctune.charts.theme import AnyChart
from auctune.domain import InputError
from edgelab.options import Options, parse
from edgelab.trials import Point, collect


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


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure to be run: its file's name, and what computes, writes and shows it."""

    name: str
    run: Callable[[Options, Console], pl.DataFrame]


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

    def run(options: Options, console: Console) -> pl.DataFrame:
        frame = more(collect(points, options, console, bound))
        panels = [Panel(one.title, _means(frame, one.column), line=one.line) for one in shown]
        write(frame, estimates_chart(panels, axis=axis), options.out, name)
        show(console, f"{title}: {shown[0].title}", _means(frame, shown[0].column))
        console.print(f"data and charts: {options.out}")
        return frame

    return Figure(name, run)


def write(frame: pl.DataFrame, chart: AnyChart, out: Path, name: str) -> None:
    """`NAME.parquet`, `NAME.svg` and `NAME.png`."""
    out.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(out / f"{name}.parquet")
    on_ground = chart.properties(background=LIGHT.surface)
    (out / f"{name}.svg").write_text(to_svg(on_ground), encoding="utf-8")
    (out / f"{name}.png").write_bytes(to_png(on_ground))


def show(console: Console, title: str, means: Sequence[Estimate]) -> None:
    """A row a mechanism, a column a setting."""
    settings = list(dict.fromkeys(one.setting for one in means))
    series = list(dict.fromkeys(one.series for one in means))
    cells = {(one.setting, one.series): one for one in means}
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("mechanism")
    for setting in settings:
        table.add_column(setting, justify="right")
    for name in series:
        row = (cells[setting, name] for setting in settings)
        table.add_row(name, *(f"{one.mean:,.4g} ±{one.high - one.mean:,.2g}" for one in row))
    console.print(table)


def main(figure: Figure, description: str | None) -> None:
    """The command of one figure; exit code 2 for bad input."""
    try:
        figure.run(parse(None, description or ""), Console())
    except InputError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(2)


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
