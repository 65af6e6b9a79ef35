"""Threads done by each allocator on calibrated bundles of Tables 1 and 2."""

from collections.abc import Callable, Mapping

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Estimate, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import MIXED, PURE, BundleTable
from timeshare_harness.cells import done_cell
from timeshare_harness.options import Figure, Options
from timeshare_harness.rivals import BEST, BEST_TIME, OTHERS, OWN, RIVALS, SWITCHING, measured

PAPERS: Mapping[str, tuple[str, str, str]] = {
    "UA": ("0", "6", "3"),
    "STF": ("0", "2", "5"),
    "LRF": ("2", "4", "-"),
    "ETF": ("2", "4", "-"),
    "LARA": ("4", "8", "6"),
}

Draw = Callable[[BundleTable, int, Options, int], RecordedBundle]
"""Makes a bundle: of a table, of a set of thresholds, by the options, and its index."""


def bundles_figure(name: str, title: str, draw: Draw) -> Figure:
    """The figure of a way to draw bundles; its data: a row a bundle of the tables and allocator."""

    def run(options: Options, console: Console) -> pl.DataFrame:
        rows: list[Mapping[str, object]] = []
        for made in (PURE, MIXED):
            for number, bundle in enumerate(made.names()):
                with console.status(f"{name}: {bundle}"):
                    drawn = [
                        draw(made, number, options, index) for index in range(options.bundles // 2)
                    ]
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
        Estimate(
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


def table(frame: pl.DataFrame) -> Rows:
    """A row an allocator, beside the paper's figures; then the bound, and switches."""
    bundles = frame["bundle"].unique(maintain_order=True).to_list()
    cells = {(row["bundle"], row["allocator"]): row for row in frame.iter_rows(named=True)}
    names = (*RIVALS, BEST, BEST_TIME, *OTHERS)
    rows: list[tuple[str, ...]] = []
    for name in names:
        papers = PAPERS.get(name, ("-",) * len(bundles))
        pairs = zip(papers, bundles, strict=True)
        rows.append((name, *(c for p, b in pairs for c in (p, done_cell(cells[b, name])))))
    first = (f"{cells[bundle, OWN]['optimum']:.2f}" for bundle in bundles)
    rows.append(("clairvoyant bound", *(cell for one in first for cell in ("-", one))))
    for name in SWITCHING:
        turns = (f"{cells[bundle, name]['switches']:.0f}" for bundle in bundles)
        rows.append((f"switches of {name}", *(cell for one in turns for cell in ("-", one))))
    return Rows(("allocator", *(h for b in bundles for h in (f"{b}, paper", b))), tuple(rows))
