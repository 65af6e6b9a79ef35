"""Data as parquet, charts as SVG and PNG, tables on the terminal."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from auctune.charts import LIGHT, to_png, to_svg
from auctune.charts.theme import AnyChart
from auctune.domain import InputError
from harness.options import Options, parse


@dataclass(frozen=True, slots=True)
class Rows:
    """A table: heads of its columns, and its rows, all texts."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def turned(self) -> "Rows":
        """Rows as columns."""
        first, *rest = zip(self.heads, *self.rows, strict=True)
        return Rows(first, tuple(rest))

    def markdown(self) -> str:
        """As a page shows it."""
        rule = ("---",) * len(self.heads)
        lines = (self.heads, rule, *self.rows)
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure to be run.

    Attributes:
        name: of its files.
        run: computes, writes and shows it; returns its data.
        table: of its data.
    """

    name: str
    run: Callable[[Options, Console], pl.DataFrame]
    table: Callable[[pl.DataFrame], Rows]


def write_data(frame: pl.DataFrame, out: Path, name: str) -> pl.DataFrame:
    """The data as `NAME.parquet`, read again: what a chart shows is what lies there."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.parquet"
    part = out / f"{name}.parquet.part"
    frame.write_parquet(part)
    part.replace(path)
    return pl.read_parquet(path)


def write_chart(chart: AnyChart, out: Path, name: str) -> None:
    """The chart as `NAME.svg` and `NAME.png`."""
    on_ground = chart.properties(background=LIGHT.surface)
    (out / f"{name}.svg").write_text(to_svg(on_ground), encoding="utf-8")
    (out / f"{name}.png").write_bytes(to_png(on_ground))


def show(console: Console, title: str, table: Rows, notes: Sequence[str] = ()) -> None:
    """A table, and what must be said of it."""
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for index, head in enumerate(table.heads):
        shown.add_column(head, justify="right" if index else "left")
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)
    for note in notes:
        console.print(note)


def main(figure: Figure, description: str | None) -> None:
    """The command of one figure; exit code 2 for bad input, 130 when interrupted."""
    with exits():
        figure.run(parse(None, description or ""), Console())


@contextlib.contextmanager
def exits() -> Iterator[None]:
    """Errors of a command as a line on stderr and an exit code."""
    try:
        yield
    except InputError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        sys.exit(130)
