"""Power laws fitted to the beginning of a curve, and drawn on.

A curve is cut into `UNITS` units of time; `SEEN` of them are what exploration sees of a thread. Of
the laws that WLS and LS fit to these, the error is the root of the mean squared difference of
logarithms: over what was seen, and over what came after.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from auctune.charts.curves import Curve, CurvePanel
from auctune.numerics.arrays import Floats
from auctune.sim.figures import Rows
from auctune.sim.timeshare.accuracy import UNITS, unit_means
from auctune.sim.timeshare.recorded import RecordedCurve
from auctune.timeshare import Ls, Wls

SEEN = UNITS // 5
ESTIMATORS: Mapping[str, Wls | Ls] = {"WLS": Wls(), "LS": Ls()}


def fit_rows(curves: Sequence[RecordedCurve]) -> list[Mapping[str, object]]:
    """A row a curve and estimator."""
    return [_fitted(curve, name, one) for curve in curves for name, one in ESTIMATORS.items()]


def _fitted(recorded: RecordedCurve, name: str, estimator: Wls | Ls) -> Mapping[str, object]:
    samples, losses = unit_means(recorded.curve, UNITS)
    bank, fresh = estimator.start_bank(1), np.array([True])
    for batches, loss in zip(samples[:SEEN], losses[:SEEN], strict=True):
        bank.observe(np.array([batches]), np.array([loss]), fresh)
    ((slope, intercept),) = bank.theta
    law = np.exp(slope * np.log(samples) + intercept)
    return {
        "curve": recorded.name,
        "estimator": name,
        "samples": samples.tolist(),
        "loss": losses.tolist(),
        "law": law.tolist(),
        "inside": root_mean_square(np.log(law[:SEEN] / losses[:SEEN])),
        "beyond": root_mean_square(np.log(law[SEEN:] / losses[SEEN:])),
    }


def root_mean_square(values: Floats) -> float:
    """Of [i] values."""
    return float(np.sqrt(np.mean(values**2)))


def fit_panels(frame: pl.DataFrame) -> list[CurvePanel]:
    """A panel a curve: logarithms of what was recorded, and of the laws."""
    panels = []
    for name in frame["curve"].unique(maintain_order=True):
        own = frame.filter(pl.col("curve") == name)
        samples, loss = own["samples"][0].to_list(), own["loss"][0].to_list()
        curves = [Curve("recorded", _shares(samples), np.log(loss).tolist())]
        curves += [
            Curve(row["estimator"], _shares(row["samples"]), np.log(row["law"]).tolist())
            for row in own.iter_rows(named=True)
        ]
        panels.append(CurvePanel(name, "ln loss", curves))
    return panels


def _shares(samples: Sequence[float]) -> Sequence[float]:
    return [batches / samples[-1] for batches in samples]


def fit_table(frame: pl.DataFrame) -> Rows:
    """A row a curve: errors inside what was seen, and beyond."""
    heads = ("curve", *(f"{name}, {part}" for part in ("seen", "beyond") for name in ESTIMATORS))
    rows = []
    for name in frame["curve"].unique(maintain_order=True):
        own = frame.filter(pl.col("curve") == name)
        errors = {row["estimator"]: row for row in own.iter_rows(named=True)}
        cells = [errors[one][part] for part in ("inside", "beyond") for one in ESTIMATORS]
        rows.append((name, *(f"{cell:.3f}" for cell in cells)))
    return Rows(heads, tuple(rows))
