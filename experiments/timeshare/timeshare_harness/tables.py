"""Threads done by each allocator on calibrated bundles of Tables 1 and 2."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import polars as pl
from rich.console import Console

from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.sweep import Sweep, table_of
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import MIXED, PURE, BundleTable
from timeshare_harness.cells import Line, bound_chart, done_lines, mean_line, switch_lines
from timeshare_harness.entries import BEST, BEST_TIME, ENTRIES, OTHERS, OWN, measured
from timeshare_harness.options import Figure, Options

Draw = Callable[[BundleTable, int, Options, int], RecordedBundle]
"""Makes a bundle: of a table, of a set of thresholds, by the options, and its index."""

Papers = Mapping[str, tuple[str, ...]]


def bundles_figure(
    name: str, title: str, draw: Draw, papers: Papers = MappingProxyType({})
) -> Figure:
    """The figure of a way to draw bundles; its data: a row a bundle and allocator.

    Args:
        name: of its files.
        title: of its table.
        draw: makes a bundle.
        papers: threads done in the paper, by allocator.
    """

    def table(frame: pl.DataFrame) -> Rows:
        return done_table(frame, papers)

    def run(options: Options, console: Console) -> pl.DataFrame:
        played: list[pl.DataFrame] = []
        indices = range(max(2, options.bundles // 2))
        for made in (PURE, MIXED):
            for number, bundle in enumerate(made.names()):
                with console.status(f"{name}: {bundle}"):
                    drawn = [draw(made, number, options, index) for index in indices]
                    played.append(measured(bundle, drawn, OTHERS))
        frame = write_data(pl.concat(played), options.out, name)
        write_chart(chart(frame), options.out, name)
        notes = [
            f"means of {frame['seed'].n_unique()} bundles ± 95% confidence",
            f"in brackets the lead of {OWN}, paired",
            f"data and charts: {options.out}",
        ]
        show(console, title, table(frame), notes)
        return frame

    return Figure(name, run, table)


def chart(frame: pl.DataFrame) -> AnyChart:
    """Threads done over those of a clairvoyant, by bundle."""
    most = pl.col("optimum").mean().over("setting").round(1)
    return bound_chart(
        frame.with_columns(setting=pl.format("{}, {} at the most", "setting", most)), "bundle"
    )


def done_table(frame: pl.DataFrame, papers: Papers) -> Rows:
    """A row an allocator, the paper's below it; then the bound, and switches."""
    sweep, lines = Sweep(frame), dict[str, Line]()
    for name, line in done_lines(sweep, (*ENTRIES, BEST, BEST_TIME, *OTHERS)).items():
        lines[name] = line
        if name in papers:
            reported = dict(zip(sweep.settings, papers[name], strict=True))
            lines[f"{name.partition(',')[0]} in the paper"] = reported.__getitem__
    lines["clairvoyant bound"] = mean_line(sweep, "optimum", ".2f")
    return table_of("allocator", sweep.settings, {**lines, **switch_lines(sweep)})
