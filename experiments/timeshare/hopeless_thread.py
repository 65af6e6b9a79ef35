"""The pure bundle with a hopeless first thread: what it takes from the other four.

The first thread is out of reach as calibrated, or has a threshold below all losses of its curve;
its deadline is the table's 500 units, or 250, when deadlines are not close together.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.numerics.estimates import mean_of
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import PURE, calibrated_bundle
from timeshare_harness.options import Figure, Options, main
from timeshare_harness.rivals import OWN, RIVALS

NAME = "hopeless_thread"
TITLE = "A hopeless thread with the nearest deadline: threads done"
SHOWN = ("STF", "LARA", "LaiRA", OWN)
DEADLINES = (500, 250)
# How far its threshold lies below the least loss of its curve; None: as calibrated.
BELOW = (None, 0.1, 0.3)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a variant and allocator."""
    curves, num = options.curves_of(PURE.name), max(2, options.bundles // 5)
    bundles = [
        calibrated_bundle(PURE, curves, seed=options.seed, index=index) for index in range(num)
    ]
    rows: list[Mapping[str, object]] = []
    for deadline in DEADLINES:
        for below in BELOW:
            made = [hopeless(bundle, deadline, below) for bundle in bundles]
            variant = "as calibrated" if below is None else f"{below:.0%} below all losses"
            for name in SHOWN:
                done = mean_of(np.array([one.play(RIVALS[name]).num_done for one in made]))
                named = {"variant": f"deadline {deadline}, {variant}", "allocator": name}
                rows.append({**named, "bundles": num, "done": done.value, "half": done.half_width})
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
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
    values = [
        Interval(
            row["variant"],
            row["allocator"],
            row["done"],
            row["done"] - row["half"],
            row["done"] + row["half"],
        )
        for row in frame.iter_rows(named=True)
    ]
    return estimates_chart([Panel("threads done", values, "dots", ".1f")], axis="first thread")


def table(frame: pl.DataFrame) -> Rows:
    """A row a variant, a column an allocator."""
    cells = {(row["variant"], row["allocator"]): row for row in frame.iter_rows(named=True)}
    rows = [
        (variant, *(f"{one['done']:.2f} ±{one['half']:.2f}" for one in found))
        for variant in frame["variant"].unique(maintain_order=True)
        for found in [[cells[variant, name] for name in SHOWN]]
    ]
    return Rows(("first thread", *SHOWN), tuple(rows))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
