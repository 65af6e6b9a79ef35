"""Bundles drawn by seed from recorded curves, in the manner of LARA, section 4.3.

For each thread a curve is drawn, and a threshold: the loss at a share of the curve that is even
within `DEPTHS`. Its model was run to that threshold alone before, with the whole pool, and took so
many units of time; its deadline is that long after the deadline of the thread before, and all start
at 0. Then a third of the threads, drawn, get a tenth of their threshold.

What was run before is another training of the same kind, if one was recorded: nobody knows the
noise of a run that is still to come. If that did not come to the threshold, it is the run itself.
"""

import math
from collections.abc import Sequence

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_count
from auctune.numerics.rng import stream
from auctune.sim.timeshare.bundle import RecordedBundle, level_at, units_alone
from auctune.sim.timeshare.recorded import RecordedCurve
from auctune.timeshare import LearningThread

DEPTHS = (0.1, 0.6)
HARD_SHARE, HARDER = 1 / 3, 0.1


def draw_bundle(
    curves: Sequence[RecordedCurve],
    num_threads: int,
    seed: int,
    *,
    index: int = 0,
    unit_seconds: float = 1.0,
) -> RecordedBundle:
    """One bundle.

    Args:
        curves: to draw from, one at least.
        num_threads: of the bundle, >= 1.
        seed: of all bundles.
        index: of this one among them.
        unit_seconds: length of a unit of time: N is the curve's rate times it.

    Raises:
        InputError: if there is no curve or no thread.
    """
    if not curves:
        raise InputError("curves", "is empty", "one recorded curve at least")
    check_count(num_threads, "num_threads", 1)
    random = stream(seed, "timeshare bundle", num_threads, index)
    deadline, due, thresholds, picked = 0, [], [], []
    for _ in range(num_threads):
        curve = curves[int(random.integers(len(curves)))]
        rate = curve.batches_per_second * unit_seconds
        threshold = level_at(curve.curve, rate, float(random.uniform(*DEPTHS)))
        deadline += _units_before(curve, curves, rate, threshold, random)
        due.append(deadline)
        thresholds.append(threshold)
        picked.append(curve)
    for k in random.permutation(num_threads)[: math.floor(num_threads * HARD_SHARE)]:
        thresholds[k] *= HARDER
    return RecordedBundle(
        name=f"{num_threads}-{index}",
        threads=tuple(
            LearningThread(f"{k + 1}-{curve.name}", 0, end, threshold)
            for k, (curve, end, threshold) in enumerate(zip(picked, due, thresholds, strict=True))
        ),
        curves=tuple(curve.curve for curve in picked),
        rates=tuple(curve.batches_per_second * unit_seconds for curve in picked),
    )


def _units_before(
    curve: RecordedCurve,
    curves: Sequence[RecordedCurve],
    rate: float,
    threshold: float,
    random: np.random.Generator,
) -> int:
    others = [o for o in curves if o.kind == curve.kind and o.name != curve.name]
    if others:
        other = others[int(random.integers(len(others)))]
        units = units_alone(other.curve, rate, threshold)
        if math.isfinite(units):
            return int(units)
    return int(units_alone(curve.curve, rate, threshold))
