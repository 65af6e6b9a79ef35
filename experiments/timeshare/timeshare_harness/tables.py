"""Threads done by each allocator on calibrated bundles of Tables 1 and 2."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import MIXED, PURE, BundleTable
from timeshare_harness.cells import done_cell
from timeshare_harness.options import Figure, Options
from timeshare_harness.rivals import BEST, BEST_TIME, OTHERS, OWN, RIVALS, SWITCHING, measured

Draw = Callable[[BundleTable, int, Options, int], RecordedBundle]
"""Makes a bundle: of a table, of a set of thresholds, by the options, and its index."""

Papers = Mapping[str, tuple[str, ...]]


def bundles_figure(
    name: str, title: str, draw: Draw, papers: Papers = MappingProxyType({})
) -> Figure:
    """The figure of a way to draw bundles; its data: a row a bundle of the tables and allocator.

    Args:
        name: of its files.
        title: of its table.
        draw: makes a bundle.
        papers: threads done in the paper, by allocator.
    """

    def table(frame: pl.DataFrame) -> Rows:
        return done_table(frame, papers)

    def run(options: Options, console: Console) -> pl.DataFrame:
        rows: list[Mapping[str, object]] = []
        indices = range(max(2, options.bundles // 2))
        for made in (PURE, MIXED):
            for number, bundle in enumerate(made.names()):
                with console.status(f"{name}: {bundle}"):
                    drawn = [draw(made, number, options, index) for index in indices]
                    rows += [{"bundle": bundle, **row} for row in measured(drawn, OTHERS)]
        frame = write_data(pl.DataFrame(rows), options.out, name)
        write_chart(chart(frame), options.out, name)
        notes = [
            f"means of {frame['bundles'][0]} bundles ± 95% confidence",
            f"in brackets the lead of {OWN}, paired",
            f"data and charts: {options.out}",
        ]
        show(console, title, table(frame), notes)
        return frame

    return Figure(name, run, table)


def chart(frame: pl.DataFrame) -> AnyChart:
    """Threads done over those of a clairvoyant, by bundle."""
    own = frame.filter(pl.col("allocator").is_in([*RIVALS, BEST]))
    values = [
        Interval(
            f"{row['bundle']}, {row['optimum']:.1f} at the most",
            row["allocator"],
            row["ratio"],
            row["ratio"] - row["ratio_half"],
            row["ratio"] + row["ratio_half"],
        )
        for row in own.iter_rows(named=True)
    ]
    return estimates_chart(
        [Panel("done / clairvoyant bound", values, "dots", ".0%")], axis="bundle"
    )


def done_table(frame: pl.DataFrame, papers: Papers) -> Rows:
    """A row an allocator, the paper's below it; then the bound, and switches."""
    bundles = frame["bundle"].unique(maintain_order=True).to_list()
    cells = {(row["bundle"], row["allocator"]): row for row in frame.iter_rows(named=True)}
    names = (*RIVALS, BEST, BEST_TIME, *OTHERS)
    rows: list[tuple[str, ...]] = []
    for name in names:
        rows.append((name, *(done_cell(cells[bundle, name]) for bundle in bundles)))
        if name in papers:
            rows.append((f"{name.partition(',')[0]} in the paper", *papers[name]))
    optimum = (f"{cells[bundle, OWN]['optimum']:.2f}" for bundle in bundles)
    rows.append(("clairvoyant bound", *optimum))
    for name in SWITCHING:
        turns = (f"{cells[bundle, name]['switches']:.0f}" for bundle in bundles)
        rows.append((f"switches of {name}", *turns))
    return Rows(("allocator", *bundles), tuple(rows))
