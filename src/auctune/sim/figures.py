"""Figures of a paper made again: data as parquet, charts as SVG and PNG, tables on terminals and
pages.
"""

import argparse
import contextlib
import csv
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from auctune.charts import LIGHT, to_png, to_svg
from auctune.charts.theme import AnyChart
from auctune.domain import InputError

O_contra = TypeVar("O_contra", contravariant=True)
AnyFigure = TypeVar("AnyFigure", bound="Figure[Any]")
Options = TypeVar("Options")


@dataclass(frozen=True, slots=True)
class Rows:
    """A table: heads of its columns, and its rows, all texts."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def turned(self) -> "Rows":
        """Rows as columns."""
        first, *rest = zip(self.heads, *self.rows, strict=True)
        return Rows(first, tuple(rest))

    def markdown(self, notes: Sequence[str] = ()) -> str:
        """Return the table, and below it a list of notes, as a page shows them."""
        rule = ("---",) * len(self.heads)
        lines = [f"| {' | '.join(line)} |" for line in (self.heads, rule, *self.rows)]
        if notes:
            lines += ["", *(f"- {note}" for note in notes)]
        return "\n".join(lines)


def no_notes(_: pl.DataFrame) -> Sequence[str]:
    """Return no sentences: the table says it all."""
    return ()


# Without slots: those of a generic type cannot note which type it was made for.
@dataclass(frozen=True)
class Figure(Generic[O_contra]):
    """A figure to be run, with options of its paper.

    Attributes:
        name: of its files.
        run: computes, writes and shows it; returns its data.
        table: of its data.
        notes: sentences below the table, with what follows from the data.
    """

    name: str
    run: Callable[[O_contra, Console], pl.DataFrame]
    table: Callable[[pl.DataFrame], Rows]
    notes: Callable[[pl.DataFrame], Sequence[str]] = no_notes


def write_data(frame: pl.DataFrame, out: Path, name: str) -> pl.DataFrame:
    """Return the data as `NAME.parquet`, read again: what a chart shows is what lies there."""
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


def load_figures(*modules: str) -> dict[str, Figure[Any]]:
    """Return the `FIGURE` of each of these modules, by its name."""
    figures = [importlib.import_module(module).FIGURE for module in modules]
    return {figure.name: figure for figure in figures}


def chosen(figures: Mapping[str, AnyFigure], names: str) -> list[AnyFigure]:
    """Return the figures of a list such as `fig04_nodes,fig13_time`; all, if it is empty.

    Raises:
        InputError: naming `--only`.
    """
    wanted = [name for name in names.split(",") if name] or list(figures)
    for name in wanted:
        if name not in figures:
            raise InputError("--only", f"{name!r} is no figure", f"some of {', '.join(figures)}")
    return [figures[name] for name in wanted]


def write_tables(page: Path, out: Path, figures: Sequence[Figure[Any]]) -> None:
    """Fill a page's marked places with the tables of the data in a folder.

    A place begins with the line `<!-- NAME -->` and ends before `<!-- end -->`. Each table is also
    written to `NAME.csv` in the page's folder (`PAGE/` beside `PAGE.md`): heads, rows, and notes as
    rows of one cell.

    Raises:
        InputError: if a figure has no data, or no place on the page.
    """
    text = page.read_text(encoding="utf-8")
    for figure in figures:
        data = out / f"{figure.name}.parquet"
        if not data.is_file():
            raise InputError(str(data), "is not there", f"a run of {figure.name} before")
        frame = pl.read_parquet(data)
        table, notes = figure.table(frame), figure.notes(frame)
        _write_csv(page.with_suffix("") / f"{figure.name}.csv", table, notes)
        start, end = f"<!-- {figure.name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(start)
        _, ended, after = rest.partition(end)
        if not (found and ended):
            raise InputError(
                str(page), f"has no place for {figure.name}", f"{start.strip()}, {end}"
            )
        text = f"{before}{start}{table.markdown(notes)}\n{end}{after}"
    page.write_text(text, encoding="utf-8")


def _write_csv(path: Path, table: Rows, notes: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows((table.heads, *table.rows, *((note,) for note in notes)))


def read_csv(path: Path) -> tuple[Rows, Sequence[str]]:
    """Return the table and the notes of a file that `write_tables` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        heads, *rest = (tuple(row) for row in csv.reader(file))
    rows = tuple(row for row in rest if len(row) == len(heads))
    return Rows(heads, rows), [row[0] for row in rest if len(row) != len(heads)]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How figures of any paper are run.

    Attributes:
        out: folder of data, charts and kept results.
        workers: processes.
        quick: small settings, to see that all works.
        fresh: compute again what is kept.
    """

    out: Path
    workers: int = 1
    quick: bool = False
    fresh: bool = False

    @property
    def cache(self) -> Path:
        """Where results are kept."""
        return self.out / "cache"


def add_run_options(parser: argparse.ArgumentParser, out: Path) -> None:
    """Add the options of `RunOptions`, with `out` as the default folder."""
    add = parser.add_argument
    add("--out", type=Path, default=out, help="folder for data and charts (%(default)s)")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes (all cores)")
    add("--quick", action="store_true", help="small settings, to see that all works")
    add("--fresh", action="store_true", help="compute again what is kept from earlier runs")


def run_options(parsed: argparse.Namespace) -> dict[str, Any]:
    """Fields of `RunOptions` by name.

    Raises:
        InputError: naming the option.
    """
    check_option("--workers", parsed.workers)
    # Small settings say nothing of large ones: their data stand apart.
    out = parsed.out / "quick" if parsed.quick else parsed.out
    return {"out": out, "workers": parsed.workers, "quick": parsed.quick, "fresh": parsed.fresh}


def check_option(name: str, count: int, least: int = 1) -> None:
    """Refuse a count below the least one.

    Raises:
        InputError: naming the option.
    """
    if count < least:
        raise InputError(name, f"{count}", f"a whole number >= {least}")


# Without slots, as `Figure`.
@dataclass(frozen=True)
class Commands(Generic[Options]):
    """The commands of a paper's figures: of one, and of all one after the other.

    Attributes:
        add_options: those that all its figures have; `--out` and `--quick` are among them.
        to_options: what was parsed, checked; raises InputError naming the option.
    """

    add_options: Callable[[argparse.ArgumentParser], None]
    to_options: Callable[[argparse.Namespace], Options]

    def parse(self, arguments: Sequence[str] | None, description: str) -> Options:
        """Options from a command line.

        Raises:
            InputError: naming the option.
        """
        return self.to_options(self._parser(description).parse_args(arguments))

    def one(self, figure: Figure[Options], description: str | None) -> None:
        """The command of one figure; exit code 2 for bad input, 130 when interrupted."""
        with exits():
            figure.run(self.parse(None, description or ""), Console())

    def all(
        self,
        figures: Mapping[str, Figure[Options]],
        page: Path,
        arguments: Sequence[str] | None,
        description: str | None,
    ) -> None:
        """The command of all figures, or of some; `--docs` writes the tables that the page has.

        Raises:
            InputError: naming the option, or what the page or its data lack.
        """
        parser = self._parser(description or "")
        parser.add_argument("--only", default="", metavar="NAME,...", help="these figures alone")
        parser.add_argument(
            "--docs", action="store_true", help="write the page's tables, run nothing"
        )
        parsed = parser.parse_args(arguments)
        wanted = chosen(figures, parsed.only)
        if parsed.docs:
            if parsed.quick:
                raise InputError("--docs", "is given with --quick", "data of whole runs")
            if not parsed.only:
                text = page.read_text(encoding="utf-8")
                wanted = [figure for figure in wanted if f"<!-- {figure.name} -->" in text]
                for figure in list(wanted):
                    if not (parsed.out / f"{figure.name}.parquet").is_file():
                        Console().print(f"{figure.name}: no data in {parsed.out}; table kept")
                        wanted.remove(figure)
            write_tables(page, parsed.out, wanted)
            return
        options, console = self.to_options(parsed), Console()
        for figure in wanted:
            figure.run(options, console)

    def _parser(self, description: str) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self.add_options(parser)
        return parser


@contextlib.contextmanager
def exits() -> Iterator[None]:
    """Errors of a command as a line on stderr and an exit code: 2 for bad input, 130 for Ctrl-C."""
    try:
        yield
    except InputError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        sys.exit(130)
