"""Figure 5: how well needs are predicted, and how long a prediction takes.

The error is |S' - S| / S, at most 10, after 60, 80, ..., 200 units of time of a thread that learns
alone; four thresholds a curve. Engression, a network that is trained anew for each prediction, is
measured with one threshold a curve of the pure bundle, without its time.
"""

import math
from collections.abc import Mapping

import polars as pl
from rich.console import Console

from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.timeshare.accuracy import DEPTHS, POINTS, make_trials, measure, microseconds
from auctune.timeshare import M4, Ls, Mixture, Wls
from auctune.timeshare.estimators import Estimator
from timeshare_harness.engression import Engression
from timeshare_harness.options import Figure, Options, main

NAME = "fig05_estimators"
TITLE = "Figure 5: error of needs that were predicted"
ONE = "pure, one threshold"
ESTIMATORS: Mapping[str, Estimator] = {
    "WLS": Wls(),
    "LS": Ls(),
    "M4": M4(),
    "mixture (ours)": Mixture(),
}


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a bundle and estimator."""
    rows: list[Mapping[str, object]] = []
    settings = [("pure", "pure", DEPTHS), ("mixed", "mixed", DEPTHS), (ONE, "pure", DEPTHS[1:2])]
    for setting, bundle, depths in settings[:2] if options.quick else settings:
        trials = make_trials(options.curves_of(bundle), depths[:1] if options.quick else depths)
        others = {"engression": Engression()} if setting == ONE else {}
        for name, estimator in {**ESTIMATORS, **others}.items():
            with console.status(f"{NAME}: {setting}, {name}"):
                one = measure(estimator, trials)
                micros = None if name in others else microseconds(estimator, trials)
            errors = [None if math.isnan(error) else error for error in one.errors]
            summary = {"mean": one.mean, "median": one.median, "micros": micros}
            rows.append({"bundle": setting, "estimator": name, "errors": errors, **summary})
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [f"data and charts: {options.out}"])
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """A panel a bundle: mean error by units seen."""
    panels = []
    for bundle in frame["bundle"].unique(maintain_order=True):
        curves = []
        for row in frame.filter(pl.col("bundle") == bundle).iter_rows(named=True):
            pairs = [(p, e) for p, e in zip(POINTS, row["errors"], strict=True) if e is not None]
            points, errors = zip(*pairs, strict=True)
            curves.append(Curve(row["estimator"], points, errors))
        panels.append(CurvePanel(bundle, "mean error", curves))
    return curves_chart(panels, x_title="units of time seen", height=170)


def table(frame: pl.DataFrame) -> Rows:
    """A row a bundle and estimator."""
    heads = (
        "estimator",
        *(f"{point} units" for point in POINTS),
        "mean",
        "median",
        "µs a thread",
    )
    rows = [
        (
            f"{row['bundle']}, {row['estimator']}",
            *("-" if error is None else f"{error:.2f}" for error in row["errors"]),
            f"{row['mean']:.2f}",
            f"{row['median']:.2f}",
            "-" if row["micros"] is None else f"{row['micros']:.2f}",
        )
        for row in frame.iter_rows(named=True)
    ]
    return Rows(heads, tuple(rows))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
