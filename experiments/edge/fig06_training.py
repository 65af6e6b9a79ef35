"""Figure 6: what the order of chunks does to training.

Three runs of one job of digits, by the chunks that are sent to training in each slot:

planned    with the chunks that Eris plans, slot by slot
shuffled   all chunks in each pass, a pass an epoch: what a plan cannot do, as a chunk is trained
           for all its epochs in one slot
by label   as planned, but sites hold different classes
"""

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.sim.figures import Rows, show, write_chart, write_data
from edge_harness.options import Figure, Options, main

NAME = "fig06_training"


def run(options: Options, console: Console) -> pl.DataFrame:
    """Train, write and show the figure; a row a slot of a run."""
    # It loads torch, which the other figures do without.
    from edge_harness.training import measure

    with console.status(f"{NAME}: training"):
        frame = write_data(measure(options.epochs), options.out, NAME)
    panels = [
        Panel("accuracy", _after_slots(frame, "accuracy"), "dots", ".0%"),
        Panel("test loss", _after_slots(frame, "loss"), "log dots", "~g"),
    ]
    write_chart(estimates_chart(panels, axis="slot of training"), options.out, NAME)
    notes = [f"data and charts: {options.out}"]
    show(console, "Figure 6: training, on samples set apart", table(frame), notes)
    return frame


def _after_slots(frame: pl.DataFrame, column: str) -> list[Interval]:
    return [
        Interval(f"{row['slot']}", row["run"], row[column], row[column], row[column])
        for row in frame.iter_rows(named=True)
    ]


def table(frame: pl.DataFrame) -> Rows:
    """A row a run, as it ends."""
    rows = []
    for (name,), part in frame.group_by(["run"], maintain_order=True):
        workers = " ".join(str(count) for count in part["workers"])
        loss, accuracy = part["loss"][-1], part["accuracy"][-1]
        rows.append((str(name), workers, f"{loss:.6f}", f"{accuracy:.1%}"))
    return Rows(("run", "workers by slot", "loss", "accuracy"), tuple(rows))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
