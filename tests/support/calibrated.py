"""Bundles of Table 1 of LARA's paper, calibrated by what it reports of its own, on shipped curves.

There nearest-deadline-first does none of five, so the first thread needs more than its 500 units,
and even shares do none, so the others need more than 117, 124, 134 and 154; exploring leaves them
581 units together. The first thread is hopeless, by a little or by `hopeless`, and the other four
can all be done: whoever serves the nearest deadline first loses half of them.
"""

import numpy as np

from auctune.numerics.rng import stream
from auctune.sim.timeshare.recorded import (
    SHIPPED,
    RecordedBundle,
    RecordedCurve,
    level_at,
    read_curves,
    units_alone,
)
from auctune.sim.timeshare.table_bundles import DEEP, PURE, USUAL
from auctune.timeshare import LearningThread

_LEAST = (118, 125, 135, 155)
_FIRST = (505, 560)
_MOST_TOGETHER = 581
# Thresholds are about as deep as those of the tables' bundles.
_JITTER = 0.03


def calibrated_bundle(index: int, hopeless: float = 0.0) -> RecordedBundle:
    """One of them.

    Args:
        index: of all that are drawn.
        hopeless: how far below all losses on record the first threshold is, as a share.
    """
    curves = [curve for curve in read_curves(SHIPPED) if curve.bundle == PURE.name]
    random = stream(0, "calibrated bundle", index)
    while True:
        first = _drawn(curves[0], int(random.integers(*_FIRST)), DEEP, random, _FIRST[0])
        drawn = [(n, n + int(random.integers(1, 12))) for n in _LEAST]
        found = [first] + [
            _drawn(curve, need, USUAL, random, least)
            for curve, (least, need) in zip(curves[1:], drawn, strict=True)
        ]
        if sum(need for _, _, need in found[1:]) <= _MOST_TOGETHER:
            break
    thresholds = [threshold for _, threshold, _ in found]
    if hopeless:
        thresholds[0] = (1 - hopeless) * float(curves[0].curve.loss.min())
    return RecordedBundle(
        name=f"calibrated-{index}",
        threads=tuple(
            LearningThread(curve.name, 0, deadline, threshold)
            for curve, deadline, threshold in zip(curves, PURE.deadlines, thresholds, strict=True)
        ),
        curves=tuple(curve.curve for curve in curves),
        rates=tuple(rate for rate, _, _ in found),
    )


def _drawn(
    curve: RecordedCurve, need: int, depth: float, random: np.random.Generator, least: int
) -> tuple[float, float, float]:
    """N, threshold, and the units that a thread alone needs with them: about `need`."""
    while True:
        share = depth + float(random.uniform(-_JITTER, _JITTER))
        rate = share * curve.curve.num_batches / need
        threshold = level_at(curve.curve, rate, share)
        units = units_alone(curve.curve, rate, threshold)
        # Noise may bring a thread there earlier.
        if least <= units <= need + 3:
            return rate, threshold, units
