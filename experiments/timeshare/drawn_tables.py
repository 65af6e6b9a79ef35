"""The tables' bundles with other curves: deadlines and depths of Tables 1 and 2, curves by seed.

One bundle of a table is one draw, and a little luck decides. Here its curves are drawn among all
that were recorded, and its unit of time is found by the same rule; half as many bundles as are
drawn elsewhere, since finding a unit takes longer than playing.
"""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Estimate, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.domain import InputError
from auctune.numerics.rng import stream
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.spot.statistics import mean_of
from auctune.sim.timeshare.comparison import compare_allocators
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import MIXED, PURE, BundleTable, make_bundles
from timeshare_harness.cells import done_cell
from timeshare_harness.options import Figure, Options, main
from timeshare_harness.rivals import BEST, OTHERS, RIVALS, explorations

NAME = "drawn_tables"
TITLE = "The tables' bundles with curves drawn by seed"


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a bundle of the tables and allocator."""
    rows: list[Mapping[str, object]] = []
    for table_made in (PURE, MIXED):
        with console.status(f"{NAME}: {table_made.name}"):
            made = [drawn(table_made, options, index) for index in range(options.bundles // 2)]
            for bundles in zip(*made, strict=True):
                rows += _measured(list(bundles))
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [f"data and charts: {options.out}"])
    return frame


def drawn(table_made: BundleTable, options: Options, index: int) -> list[RecordedBundle]:
    """The bundles of a table on curves drawn for it, again where no unit of time fits."""
    random, curves = stream(options.seed, "drawn tables", table_made.name, index), options.curves
    while True:
        picked = random.integers(len(curves), size=len(table_made.deadlines))
        own = [replace(curves[k], name=f"{n}-{curves[k].name}") for n, k in enumerate(picked)]
        try:
            return make_bundles(table_made, own)
        except InputError:
            continue


def _measured(bundles: list[RecordedBundle]) -> list[Mapping[str, object]]:
    tried = explorations()
    named = {**RIVALS, **OTHERS}
    comparison = compare_allocators(bundles, [*named.values(), *tried.values()])
    done = dict(zip([*named, *tried], comparison.done.T, strict=True))
    best = max(tried, key=lambda share: done[share].mean())
    done[BEST] = done[best]
    return [
        {
            "bundle": bundles[0].name,
            "allocator": name,
            "bundles": len(bundles),
            "attainable": bundles[0].attainable().num_done,
            "explored": best if name == BEST else None,
            "done": mean_of(done[name]).value,
            "half": mean_of(done[name]).half_width,
        }
        for name in (*RIVALS, BEST, *OTHERS)
    ]


def chart(frame: pl.DataFrame) -> AnyChart:
    """Threads done over those attainable, by bundle."""
    own = frame.filter(pl.col("allocator").is_in([*RIVALS, BEST]))
    values = [
        Estimate(
            f"{row['bundle']}, {row['attainable']} attainable",
            row["allocator"],
            row["done"] / row["attainable"],
            (row["done"] - row["half"]) / row["attainable"],
            (row["done"] + row["half"]) / row["attainable"],
        )
        for row in own.iter_rows(named=True)
    ]
    return estimates_chart([Panel("done / attainable", values, "dots", ".0%")], axis="bundle")


def table(frame: pl.DataFrame) -> Rows:
    """A row an allocator, a column a bundle."""
    bundles = frame["bundle"].unique(maintain_order=True).to_list()
    cells = {(row["bundle"], row["allocator"]): row for row in frame.iter_rows(named=True)}
    names = frame["allocator"].unique(maintain_order=True).to_list()
    rows = [(name, *(done_cell(cells[bundle, name]) for bundle in bundles)) for name in names]
    attainable = (f"{cells[bundle, names[0]]['attainable']}" for bundle in bundles)
    return Rows(("allocator", *bundles), (("attainable", *attainable), *rows))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
