"""Figures 4 to 13, the sensitivity runs and untuned settings, one after the other.

    python experiments/pdftsp/run_all.py [--quick] [--only NAME,...] [--trace LOG ...]
    python experiments/pdftsp/run_all.py --docs

Results are kept, so a run that was stopped goes on where it was. With --docs nothing is run: the
tables of docs/explanation/experiments-pdftsp.md are written anew from the data in --out.
"""

import argparse
from pathlib import Path

import polars as pl
from rich.console import Console

import fig04_nodes
import fig05_vendors
import fig06_node_types
import fig07_traces
import fig08_load
import fig09_deadlines
import fig10_truthfulness
import fig11_rationality
import fig12_competitiveness
import fig13_time
import sensitivity
import untuned
from auctune.domain import InputError
from harness.options import add_options, to_options
from harness.output import Figure, exits

FIGURES = {
    module.FIGURE.name: module.FIGURE
    for module in (
        fig04_nodes,
        fig05_vendors,
        fig06_node_types,
        fig07_traces,
        fig08_load,
        fig09_deadlines,
        fig10_truthfulness,
        fig11_rationality,
        fig12_competitiveness,
        fig13_time,
        sensitivity,
        untuned,
    )
}
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "experiments-pdftsp.md"


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--only", default="", metavar="NAME,...", help="these figures alone")
    parser.add_argument("--docs", action="store_true", help="write the page's tables, run nothing")
    parsed = parser.parse_args(arguments)
    figures = _chosen(parsed.only)
    if parsed.docs:
        if parsed.quick:
            raise InputError("--docs", "is given with --quick", "data of whole runs")
        write_tables(PAGE, parsed.out, figures)
        return
    options, console = to_options(parsed), Console()
    for figure in figures:
        figure.run(options, console)


def write_tables(page: Path, out: Path, figures: list[Figure]) -> None:
    """Fill the page's marked places with the tables of the data in a folder.

    Raises:
        InputError: if a figure has no data, or no place on the page.
    """
    text = page.read_text(encoding="utf-8")
    for figure in figures:
        data = out / f"{figure.name}.parquet"
        if not data.is_file():
            raise InputError(str(data), "is not there", f"a run of {figure.name} before")
        table = figure.table(pl.read_parquet(data)).markdown()
        start, end = f"<!-- {figure.name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(start)
        _, ended, after = rest.partition(end)
        if not (found and ended):
            raise InputError(
                str(page), f"has no place for {figure.name}", f"{start.strip()}, {end}"
            )
        text = f"{before}{start}{table}\n{end}{after}"
    page.write_text(text, encoding="utf-8")


def _chosen(names: str) -> list[Figure]:
    wanted = [name for name in names.split(",") if name] or list(FIGURES)
    for name in wanted:
        if name not in FIGURES:
            raise InputError("--only", f"{name!r} is no figure", f"some of {', '.join(FIGURES)}")
    return [FIGURES[name] for name in wanted]


if __name__ == "__main__":
    with exits():
        main()
