"""How well estimators predict needs on recorded curves; LARA, section 4.4.

A thread learns alone, the same number of batches in each unit of time, up to its threshold: the
loss at a share of its curve. At 60, 80, ..., 200 units its need is predicted, S', and compared with
the true one, S: the batches up to the first unit that is at or under the threshold. The
error is |S' - S| / S, at most `MOST_ERROR` (an infinite need has no other figure), and beside it
|ln (S' / S)|, at most its logarithm, which takes too little as seriously as too much.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.numerics.arrays import Floats
from auctune.sim.timeshare.recorded import RecordedCurve
from auctune.timeshare.estimators import Estimator, SingleThread
from auctune.timeshare.thread import LossCurve

POINTS = tuple(range(60, 201, 20))
DEPTHS = (0.3, 0.5, 0.7, 0.9)
UNITS = 600
MOST_ERROR = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One curve up to one threshold.

    Attributes:
        samples, losses: [i] at the ends of the units.
        threshold: eps.
        reached: units up to the first one at or under it.
    """

    samples: Floats
    losses: Floats
    threshold: float
    reached: int


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How an estimator did.

    Attributes:
        name: the estimator's.
        errors: mean error by number of units seen, as of `POINTS`; NaN without a prediction.
        mean, median: of all errors.
        log_error: mean of |ln (S' / S)|.
    """

    name: str
    errors: tuple[float, ...]
    mean: float
    median: float
    log_error: float


def make_trials(
    curves: Sequence[RecordedCurve],
    depths: Sequence[float] = DEPTHS,
    num_units: int = UNITS,
) -> list[Trial]:
    """Each curve cut into so many units, up to each threshold that takes longer than 60 of them."""
    trials = []
    for recorded in curves:
        samples, losses = unit_means(recorded.curve, num_units)
        smooth = np.convolve(losses, np.full(15, 1 / 15), mode="valid")
        for depth in depths:
            threshold = float(smooth[: max(1, int(depth * len(smooth)))].min())
            under = np.flatnonzero(losses <= threshold)
            if len(under) and under[0] >= POINTS[0]:
                trials.append(Trial(samples, losses, threshold, int(under[0]) + 1))
    return trials


def unit_means(curve: LossCurve, num_units: int) -> tuple[Floats, Floats]:
    """[i] batches at the end of each unit, and mean losses."""
    step = max(1, curve.num_batches // num_units)
    samples = np.arange(step, curve.num_batches + 1, step, dtype=np.float64)
    return samples, np.array([curve.mean(end - step, end) for end in samples])


def measure(estimator: Estimator, trials: Sequence[Trial]) -> Accuracy:
    """Measure an estimator on all trials; one at least."""
    predictions: list[tuple[int, float, float]] = []
    for trial in trials:
        run = SingleThread(estimator)
        for index in range(min(trial.reached - 1, POINTS[-1])):
            run.observe(float(trial.samples[index]), float(trial.losses[index]))
            if index + 1 in POINTS:
                rest = float(trial.samples[trial.reached - 1] - trial.samples[index])
                predictions.append((index + 1, rest, run.need(trial.threshold).batches))
    table = np.array(predictions, dtype=np.float64)
    points, true, predicted = table[:, 0], table[:, 1], table[:, 2]
    errors = np.minimum(np.abs(predicted - true) / true, MOST_ERROR)
    ratio = np.clip(np.maximum(predicted, 1.0) / true, 1 / MOST_ERROR, MOST_ERROR)
    return Accuracy(
        estimator.name,
        tuple(
            float(errors[points == p].mean()) if (points == p).any() else math.nan for p in POINTS
        ),
        float(errors.mean()),
        float(np.median(errors)),
        float(np.abs(np.log(ratio)).mean()),
    )


def microseconds(estimator: Estimator, trials: Sequence[Trial]) -> float:
    """Return the median time in which a thread, one of many, learns a unit and is predicted.

    All trials are threads of one bank.
    """
    bank = estimator.start_bank(len(trials))
    thresholds = np.array([trial.threshold for trial in trials])
    fresh = np.ones(len(trials), dtype=np.bool_)
    spent = []
    for index in range(POINTS[0]):
        samples = np.array([trial.samples[index] for trial in trials])
        losses = np.array([trial.losses[index] for trial in trials])
        begun = time.perf_counter()
        bank.observe(samples, losses, fresh)
        bank.needs(thresholds)
        spent.append(time.perf_counter() - begun)
    return 1e6 * float(np.median(spent)) / len(trials)
