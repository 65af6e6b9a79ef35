"""Figure 8 (b) and (c): error and time of predictions for the models of the pure bundle.

The error of the need is a share of all that the thread needs, |S' - S| / (s + S), at most 10, while
it learns alone up to the threshold of Table 1's bundle. Figure 8 (a) is part of `fig10_fits`.
"""

import time
from collections.abc import Mapping
from statistics import median

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.theme import AnyChart
from auctune.numerics.arrays import Floats
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.timeshare.accuracy import MOST_ERROR, UNITS, unit_means
from auctune.sim.timeshare.recorded import RecordedCurve
from auctune.sim.timeshare.table_bundles import PURE, calibrated_bundle
from auctune.timeshare import Ls, Mixture, Wls
from auctune.timeshare.estimators import Estimator, SingleThread
from timeshare_harness.options import Figure, Options, main

NAME = "fig08_prediction"
TITLE = "Figure 8: prediction for the pure bundle"
ESTIMATORS: Mapping[str, Estimator] = {"WLS": Wls(), "LS": Ls(), "mixture (ours)": Mixture()}
# Shares of the way to the threshold at which the table says the error: medians of a tenth around.
WAY = (0.2, 0.4, 0.6, 0.8, 0.95)
_AROUND = 0.05
_TIMED = 200


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a model and estimator."""
    curves = options.curves_of("pure")
    bundle = calibrated_bundle(PURE, curves, seed=options.seed)
    rows = []
    for curve, thread in zip(curves, bundle.threads, strict=True):
        for name, estimator in ESTIMATORS.items():
            way, errors = errors_alone(curve, thread.threshold, estimator)
            micros = microseconds(curve, thread.threshold, estimator)
            named = {"curve": curve.name, "estimator": name, "micros": micros}
            rows.append({**named, "way": way.tolist(), "errors": errors.tolist()})
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [f"data and charts: {options.out}"])
    return frame


def errors_alone(
    recorded: RecordedCurve, threshold: float, estimator: Estimator
) -> tuple[Floats, Floats]:
    """[i] shares of the way to the threshold, and errors of the need there."""
    samples, losses = unit_means(recorded.curve, UNITS)
    reached = (
        int(np.argmax(losses <= threshold)) if (losses <= threshold).any() else len(losses) - 1
    )
    run, end = SingleThread(estimator), samples[reached]
    errors = np.empty(reached)
    for index in range(reached):
        run.observe(float(samples[index]), float(losses[index]))
        rest = end - samples[index]
        errors[index] = min(abs(run.need(threshold).batches - rest) / end, MOST_ERROR)
    return samples[:reached] / end, errors


def microseconds(recorded: RecordedCurve, threshold: float, estimator: Estimator) -> float:
    """Of learning one loss and predicting the need, one thread by itself."""
    samples, losses = unit_means(recorded.curve, UNITS)
    run, spent = SingleThread(estimator), []
    for batches, loss in zip(samples[:_TIMED].tolist(), losses[:_TIMED].tolist(), strict=True):
        begun = time.perf_counter()
        run.observe(batches, loss)
        run.need(threshold)
        spent.append(time.perf_counter() - begun)
    return 1e6 * median(spent)


def chart(frame: pl.DataFrame) -> AnyChart:
    """Errors of the first model."""
    own = frame.filter(pl.col("curve") == frame["curve"][0])
    curves = [
        Curve(row["estimator"], row["way"], row["errors"]) for row in own.iter_rows(named=True)
    ]
    title = f"{frame['curve'][0]}, error of the need"
    panel = CurvePanel(title, "error / whole need", curves, "d")
    return curves_chart([panel], x_title="share of the way", height=200)


def table(frame: pl.DataFrame) -> Rows:
    """A row a model and estimator: errors on the way, and the time."""
    heads = ("curve, estimator", *(f"{share:.0%} of the way" for share in WAY), "µs alone")
    rows = []
    for row in frame.iter_rows(named=True):
        way, errors = np.array(row["way"]), np.array(row["errors"])
        cells = (errors[np.abs(way - share) <= _AROUND] for share in WAY)
        medians = (f"{np.median(cell):.2f}" if len(cell) else "-" for cell in cells)
        rows.append((f"{row['curve']}, {row['estimator']}", *medians, f"{row['micros']:.1f}"))
    return Rows(heads, tuple(rows))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
