"""Figure 6: drawn bundles of 10 to 100 threads, threads done and the time of a round.

Bundles follow the paper's section 4.3: STF could do all of them, then a third get a tenth of their
threshold. "LARA, best" is the best of six lengths of exploration, as known afterwards. Of more than
10 threads a tenth as many bundles are drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import draw_bundle
from timeshare_harness.cells import done_cell
from timeshare_harness.options import Figure, Options, main
from timeshare_harness.rivals import BEST, OTHERS, OWN, RIVALS, SWITCHING, measured
from timeshare_harness.timing import round_milliseconds

NAME = "fig06_scale"
TITLE = "Figure 6: drawn bundles by number of threads"
SIZES = (10, 25, 50, 75, 100)
TIMED = ("LARA", "LaiRA", OWN)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a size and allocator."""
    rows: list[Mapping[str, object]] = []
    for size in SIZES[:2] if options.quick else SIZES:
        with console.status(f"{NAME}: {size} threads"):
            num = options.bundles if size == SIZES[0] else max(2, options.bundles // 10)
            bundles = [
                draw_bundle(options.curves, size, options.seed, index=index) for index in range(num)
            ]
            rows += _measured(size, bundles)
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), notes(frame, options))
    return frame


def _measured(size: int, bundles: Sequence[RecordedBundle]) -> list[Mapping[str, object]]:
    attainable = float(np.mean([bundle.attainable().num_done for bundle in bundles]))
    rows: list[Mapping[str, object]] = []
    for row in measured(bundles, OTHERS if size == SIZES[0] else {}):
        name = row["allocator"]
        timed = name in TIMED
        spent = round_milliseconds(RIVALS[str(name)], bundles[0]) if timed else None
        rows.append({"threads": size, "attainable": attainable, "milliseconds": spent, **row})
    return rows


def chart(frame: pl.DataFrame) -> AnyChart:
    """Threads done over the clairvoyant bound, by size."""
    values = [
        Interval(
            f"{row['threads']}",
            row["allocator"],
            row["ratio"],
            row["ratio"] - row["ratio_half"],
            row["ratio"] + row["ratio_half"],
        )
        for row in frame.filter(pl.col("allocator").is_in([*RIVALS, BEST])).iter_rows(named=True)
    ]
    return estimates_chart(
        [Panel("done / clairvoyant bound", values, "dots", ".0%")], axis="threads"
    )


def table(frame: pl.DataFrame) -> Rows:
    """A row an allocator, a column a size; then the bound, switches and times."""
    sizes = frame["threads"].unique(maintain_order=True).to_list()
    cells = {(row["threads"], row["allocator"]): row for row in frame.iter_rows(named=True)}
    names = frame["allocator"].unique(maintain_order=True).to_list()

    def line(head: str, name: str, cell: Callable[[Mapping[str, Any]], str]) -> tuple[str, ...]:
        found = ((size, name) in cells for size in sizes)
        return (
            head,
            *(
                cell(cells[size, name]) if there else "-"
                for size, there in zip(sizes, found, strict=True)
            ),
        )

    rows = [line(name, name, done_cell) for name in names]
    rows.append(line("clairvoyant bound", OWN, lambda row: f"{row['optimum']:.2f}"))
    rows.append(line("attainable", OWN, lambda row: f"{row['attainable']:.2f}"))
    rows.append(line(f"{OWN} / bound", OWN, _share))
    rows += [line(f"switches of {name}", name, _switches) for name in SWITCHING]
    rows += [line(f"a round of {name}", name, _milliseconds) for name in TIMED]
    return Rows(("threads", *(f"{size}" for size in sizes)), tuple(rows))


def _switches(row: Mapping[str, float]) -> str:
    return f"{row['switches']:.0f}"


def _milliseconds(row: Mapping[str, float]) -> str:
    return f"{row['milliseconds']:.3f} ms"


def _share(row: Mapping[str, float]) -> str:
    return f"{row['ratio']:.3f} ±{row['ratio_half']:.3f}"


def notes(frame: pl.DataFrame, options: Options) -> list[str]:
    """What must be said beside the table."""
    return [
        f"means of {frame['bundles'][0]} bundles of {SIZES[0]} threads, of {frame['bundles'][-1]} "
        "of more, ± 95% confidence; median time of a round",
        f"data and charts: {options.out}",
    ]


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
