"""Figure 9: who gets which share of the pool on the pure bundle, and which threads are done when.

LARA explores for the paper's share of the time, 0.53, in equal batches of each thread, so that the
figure shows what the paper's does; beside it auctune's own allocator.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import PURE, calibrated_bundle
from auctune.timeshare import Allocator, Exploration, Rollout, lara
from timeshare_harness.entries import OWN, PAPERS_SHARE
from timeshare_harness.options import Figure, Options, main

NAME = "fig09_allocation"
TITLE = "Figure 9: the pool's time on the pure bundle"
SHOWN: Mapping[str, Allocator] = {
    "LARA": lara(Exploration(share=PAPERS_SHARE)),
    OWN: Rollout(),
}
# Shares jump from unit to unit: a line shows the mean of so many.
_SMOOTHED = 5


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row an allocator and thread."""
    bundle = calibrated_bundle(PURE, options.curves_of("pure"), seed=options.seed)
    rows = [row for name, one in SHOWN.items() for row in _played(name, one, bundle)]
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [f"data and charts: {options.out}"])
    return frame


def _played(name: str, allocator: Allocator, bundle: RecordedBundle) -> list[Mapping[str, object]]:
    outcome = bundle.play(allocator)
    return [
        {
            "allocator": name,
            "thread": thread.id,
            "deadline": thread.deadline,
            "alone": bundle.units_alone[k],
            "finish": float(outcome.finish[k]) if np.isfinite(outcome.finish[k]) else None,
            "shares": outcome.shares[:, k].tolist(),
        }
        for k, thread in enumerate(bundle.threads)
    ]


def chart(frame: pl.DataFrame) -> AnyChart:
    """A panel an allocator: shares by unit of time."""
    panels = []
    for name in SHOWN:
        own = frame.filter(pl.col("allocator") == name)
        curves = []
        for row in own.iter_rows(named=True):
            shares = np.array(row["shares"])
            whole = shares[: len(shares) // _SMOOTHED * _SMOOTHED].reshape(-1, _SMOOTHED)
            units = [float(_SMOOTHED * index) for index in range(len(whole))]
            curves.append(Curve(row["thread"], units, whole.mean(axis=1).tolist()))
        panels.append(CurvePanel(name, "share", curves, ".0%"))
    return curves_chart(panels, x_title="units of time", height=170)


def table(frame: pl.DataFrame) -> Rows:
    """A row a thread: what it was given in all, and when it was done."""
    heads = ("thread", "deadline", "alone", *(f"{name}, units" for name in SHOWN))
    heads = (*heads, *(f"{name}, done at" for name in SHOWN))
    rows = []
    for thread in frame["thread"].unique(maintain_order=True):
        own = frame.filter(pl.col("thread") == thread)
        by_name = {row["allocator"]: row for row in own.iter_rows(named=True)}
        first = own.row(0, named=True)
        given = (f"{sum(by_name[name]['shares']):.0f}" for name in SHOWN)
        ends = (by_name[name]["finish"] for name in SHOWN)
        done = ("-" if end is None else f"{end:.0f}" for end in ends)
        rows.append((thread, f"{first['deadline']}", f"{first['alone']:.0f}", *given, *done))
    return Rows(heads, tuple(rows))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
