"""Figure 6: drawn bundles of 10 to 100 threads, threads done and the time of a round.

Bundles follow the paper's section 4.3: STF could do all of them, then a third get a tenth of their
threshold. "LARA, best" is the best of six lengths of exploration, as known
afterwards.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.estimates import Estimate, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.spot.statistics import mean_of, ratio_of
from auctune.sim.timeshare.comparison import compare_allocators
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import draw_bundle
from timeshare_harness.cells import done_cell
from timeshare_harness.options import Figure, Options, main
from timeshare_harness.rivals import BEST, EXPLORATIONS, OWN, RIVALS, explorations
from timeshare_harness.timing import round_milliseconds

NAME = "fig06_scale"
TITLE = "Figure 6: drawn bundles by number of threads"
SIZES = (10, 25, 50, 75, 100)
TIMED = ("LARA", OWN)
USUAL_SHARE = 0.1


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a size and allocator."""
    rows: list[Mapping[str, object]] = []
    for size in SIZES[:2] if options.quick else SIZES:
        with console.status(f"{NAME}: {size} threads"):
            bundles = [
                draw_bundle(options.curves, size, options.seed, index=index)
                for index in range(options.bundles)
            ]
            rows += _measured(size, bundles)
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), notes(frame, options))
    return frame


def _measured(size: int, bundles: Sequence[RecordedBundle]) -> list[Mapping[str, object]]:
    tried = explorations([share for share in EXPLORATIONS if share != USUAL_SHARE])
    comparison = compare_allocators(bundles, [*RIVALS.values(), *tried.values()])
    done = dict(zip([*RIVALS, *tried], comparison.done.T, strict=True))
    best = max(tried, key=lambda share: done[share].mean())
    explored = {BEST: best if done[best].mean() > done["LARA"].mean() else USUAL_SHARE}
    done[BEST] = done[best] if explored[BEST] == best else done["LARA"]
    attainable = float(np.mean([bundle.attainable().num_done for bundle in bundles]))
    rows: list[Mapping[str, object]] = []
    for name in (*RIVALS, BEST):
        mean, ratio = mean_of(done[name]), ratio_of(done[name], comparison.optimum)
        assert ratio is not None
        spent = round_milliseconds(RIVALS[name], bundles[0]) if name in TIMED else None
        rows.append(
            {
                "threads": size,
                "allocator": name,
                "bundles": len(bundles),
                "explored": explored.get(name),
                "done": mean.value,
                "half": mean.half_width,
                "ratio": ratio.value,
                "ratio_half": ratio.half_width,
                "optimum": float(comparison.optimum.mean()),
                "attainable": attainable,
                "milliseconds": spent,
            }
        )
    return rows


def chart(frame: pl.DataFrame) -> AnyChart:
    """Threads done over the clairvoyant bound, by size."""
    values = [
        Estimate(
            f"{row['threads']}",
            row["allocator"],
            row["ratio"],
            row["ratio"] - row["ratio_half"],
            row["ratio"] + row["ratio_half"],
        )
        for row in frame.iter_rows(named=True)
    ]
    return estimates_chart(
        [Panel("done / clairvoyant bound", values, "dots", ".0%")], axis="threads"
    )


def table(frame: pl.DataFrame) -> Rows:
    """A row an allocator, a column a size; then the bound, and the time of a round."""
    sizes = frame["threads"].unique(maintain_order=True).to_list()
    cells = {(row["threads"], row["allocator"]): row for row in frame.iter_rows(named=True)}
    names = frame["allocator"].unique(maintain_order=True).to_list()
    rows = [(name, *(done_cell(cells[size, name]) for size in sizes)) for name in names]
    first = [cells[size, names[0]] for size in sizes]
    rows.append(("clairvoyant bound", *(f"{row['optimum']:.2f}" for row in first)))
    rows.append(("attainable", *(f"{row['attainable']:.2f}" for row in first)))
    rows.append((f"{OWN} / bound", *(_share(cells[size, OWN]) for size in sizes)))
    for name in TIMED:
        spent = (f"{cells[size, name]['milliseconds']:.3f} ms" for size in sizes)
        rows.append((f"a round of {name}", *spent))
    return Rows(("threads", *(f"{size}" for size in sizes)), tuple(rows))


def _share(row: Mapping[str, float]) -> str:
    return f"{row['ratio']:.3f} ±{row['ratio_half']:.3f}"


def notes(frame: pl.DataFrame, options: Options) -> list[str]:
    """What must be said beside the table."""
    return [
        f"means of {frame['bundles'][0]} bundles ± 95% confidence; median time of a round",
        f"data and charts: {options.out}",
    ]


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
