"""Figure 6: drawn bundles of 10 to 100 threads, threads done and the time of a round.

Bundles follow the paper's section 4.3: STF could do all of them, then a third get a tenth of their
threshold. "LARA, best" is the best of six lengths of exploration, as known afterwards. Of more than
10 threads a tenth as many bundles are drawn.
"""

from collections.abc import Sequence

import polars as pl
from rich.console import Console

from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.sweep import Sweep, cell_text, table_of
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import draw_bundle
from timeshare_harness.cells import bound_chart, done_lines, mean_line, switch_lines
from timeshare_harness.entries import ENTRIES, OTHERS, OWN, measured
from timeshare_harness.options import Figure, Options, main
from timeshare_harness.timing import round_milliseconds

NAME = "fig06_scale"
TITLE = "Figure 6: drawn bundles by number of threads"
SIZES = (10, 25, 50, 75, 100)
TIMED = ("LARA", "LaiRA", OWN)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a bundle and allocator."""
    played: list[pl.DataFrame] = []
    for size in SIZES[:2] if options.quick else SIZES:
        with console.status(f"{NAME}: {size} threads"):
            num = options.bundles if size == SIZES[0] else max(2, options.bundles // 10)
            bundles = [
                draw_bundle(options.curves, size, options.seed, index=index) for index in range(num)
            ]
            played.append(_measured(size, bundles))
    frame = write_data(pl.concat(played), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), notes(frame, options))
    return frame


def _measured(size: int, bundles: Sequence[RecordedBundle]) -> pl.DataFrame:
    frame = measured(f"{size}", bundles, OTHERS if size == SIZES[0] else {})
    attainable = [float(bundle.attainable().num_done) for bundle in bundles]
    timed = {name: round_milliseconds(ENTRIES[name], bundles[0]) for name in TIMED}
    return frame.with_columns(
        attainable=pl.col("seed").replace_strict(dict(enumerate(attainable))),
        milliseconds=pl.col("entry").replace_strict(timed, default=None),
    )


def chart(frame: pl.DataFrame) -> AnyChart:
    """Threads done over the clairvoyant bound, by size."""
    return bound_chart(frame, "threads")


def table(frame: pl.DataFrame) -> Rows:
    """A row an allocator, a column a size; then the bound, switches and times."""
    sweep = Sweep(frame)
    lines = done_lines(sweep, sweep.entries)
    lines["clairvoyant bound"] = mean_line(sweep, "optimum", ".2f")
    lines["attainable"] = mean_line(sweep, "attainable", ".2f")
    lines[f"{OWN} / bound"] = cell_text(sweep.ratios("done", "optimum"), OWN, ".3f")
    lines |= switch_lines(sweep)
    lines |= {
        f"a round of {name}, ms": mean_line(sweep, "milliseconds", ".3f", name) for name in TIMED
    }
    return table_of("threads", sweep.settings, lines)


def notes(frame: pl.DataFrame, options: Options) -> list[str]:
    """What must be said beside the table."""
    counts = [
        frame.filter(pl.col("setting") == one)["seed"].n_unique() for one in Sweep(frame).settings
    ]
    return [
        f"means of {counts[0]} bundles of {SIZES[0]} threads, of {counts[-1]} of more, "
        "± 95% confidence; median time of a round in milliseconds",
        f"data and charts: {options.out}",
    ]


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
