"""The pure bundle with a hopeless first thread: what it takes from the other four.

The first thread is out of reach as calibrated, or has a threshold below all losses of its curve;
its deadline is the table's 500 units, or 250, when deadlines are not close together.
"""

from dataclasses import replace

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.sweep import Sweep, cell_text, intervals, table_of
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import PURE, calibrated_bundle
from timeshare_harness.entries import ENTRIES, OWN
from timeshare_harness.options import Figure, Options, main

NAME = "hopeless_thread"
TITLE = "A hopeless thread with the nearest deadline: threads done"
SHOWN = ("STF", "LARA", "LaiRA", OWN)
DEADLINES = (500, 250)
COLUMNS = ("setting", "seed", "entry", "done")
# How far its threshold lies below the least loss of its curve; None: as calibrated.
BELOW = (None, 0.1, 0.3)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a variant, bundle and allocator."""
    curves, num = options.curves_of(PURE.name), max(2, options.bundles // 5)
    bundles = [
        calibrated_bundle(PURE, curves, seed=options.seed, index=index) for index in range(num)
    ]
    rows: list[tuple[str, int, str, int]] = []
    for deadline in DEADLINES:
        for below in BELOW:
            variant = "as calibrated" if below is None else f"{below:.0%} below all losses"
            setting = f"deadline {deadline}, {variant}"
            made = [hopeless(bundle, deadline, below) for bundle in bundles]
            rows += [
                (setting, seed, name, one.play(ENTRIES[name]).num_done)
                for name in SHOWN
                for seed, one in enumerate(made)
            ]
    frame = write_data(pl.DataFrame(rows, COLUMNS, orient="row"), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [f"means of {num} bundles", f"data: {options.out}"])
    return frame


def hopeless(bundle: RecordedBundle, deadline: int, below: float | None) -> RecordedBundle:
    """Return the bundle with another deadline and threshold of its first thread."""
    first, threshold = bundle.threads[0], bundle.threads[0].threshold
    if below is not None:
        threshold = (1.0 - below) * float(bundle.curves[0].loss.min())
    changed = replace(first, deadline=deadline, threshold=threshold)
    return replace(bundle, threads=(changed, *bundle.threads[1:]))


def chart(frame: pl.DataFrame) -> AnyChart:
    """Threads done, by variant."""
    values = intervals(Sweep(frame).means("done"))
    return estimates_chart([Panel("threads done", values, "dots", ".1f")], axis="first thread")


def table(frame: pl.DataFrame) -> Rows:
    """A row a variant, a column an allocator."""
    sweep = Sweep(frame)
    done = sweep.means("done")
    lines = {name: cell_text(done, name, ".2f") for name in SHOWN}
    return table_of("first thread", sweep.settings, lines).turned()


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
