"""Bundles drawn over recorded curves: at random, and those of the paper's tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_count
from auctune.numerics.rng import stream
from auctune.sim.timeshare.recorded import RecordedBundle, RecordedCurve, level_at, units_alone
from auctune.timeshare import LearningThread

# Bundles drawn by seed from recorded curves, in the manner of LARA, section 4.3.
#
# For each thread a curve is drawn, and a threshold: the loss at a share of the curve that is even
# within `DEPTHS`. Its model was run to that threshold alone before, with the whole pool, and took
# so many units of time; its deadline is that long after the deadline of the thread before, and all
# start at 0. Then a third of the threads, drawn, get a tenth of their threshold.
#
# What was run before is another training of the same kind, if one was recorded: nobody knows the
# noise of a run that is still to come. If that did not come to the threshold, it is the run
# itself.


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


# The bundles of LARA's Tables 1 and 2 on recorded curves: N, d and eps by one rule.
#
# The tables' thresholds do not fit other models. In their place, before any allocator is run:
#
# - deadlines are the tables', in units of time;
# - eps_k is the loss at a share of the curve, its depth: `USUAL` for most threads, `DEEP` for those
#   that the tables make hard (the first of Table 1, the first two of Table 2); with the second
#   thresholds of Table 2 `SHALLOW` for threads 4 and 9, which it makes easy, and `DEEPER` for the
#   others, which it makes harder;
# - N_k is the curve's rate times the length of a unit of time. That length, one for each bundle, is
#   the middle (of logarithms) of those with which a clairvoyant does 4 of 5 threads; 8 of 10 with
#   the
#   first thresholds of Table 2, and 6 with the second. It runs one thread after another, with
#   the
#   whole pool for each: what it does can be done, where the upper bound also counts on luck with
#   the
#   noise of single batches.

USUAL, DEEP, DEEPER, SHALLOW = 0.5, 0.9, 0.75, 0.25

_UNITS = np.geomspace(0.02, 2.0, 161)


@dataclass(frozen=True, slots=True)
class BundleTable:
    """What is kept of a table.

    Attributes:
        name: of the curves' bundle.
        deadlines: d of each thread, in the order of the curves.
        hard: threads that are made hard, from 0.
        easy: threads that the second thresholds make easy.
        optima: threads that the optimum does, for each set of thresholds.
    """

    name: str
    deadlines: tuple[int, ...]
    hard: tuple[int, ...]
    easy: tuple[int, ...]
    optima: tuple[int, ...]


PURE = BundleTable("pure", (500, 570, 590, 610, 630), (0,), (), (4,))
MIXED = BundleTable(
    "mixed", (530, 540, 545, 585, 625, 655, 685, 690, 700, 710), (0, 1), (3, 8), (8, 6)
)


def table_bundles(curves: Sequence[RecordedCurve]) -> tuple[RecordedBundle, ...]:
    """pure, mixed-1 and mixed-2, of those whose curves are there.

    Raises:
        InputError: if no curve is of either bundle, there are not as many as the table has threads,
            or no length of a unit gives the optimum that is wanted.
    """
    made: list[RecordedBundle] = []
    for table in (PURE, MIXED):
        own = [curve for curve in curves if curve.bundle == table.name]
        if own:
            made += make_bundles(table, own)
    if not made:
        raise InputError("curves", "has none of bundle pure or mixed", "recorded curves of one")
    return tuple(made)


def make_bundles(table: BundleTable, curves: Sequence[RecordedCurve]) -> list[RecordedBundle]:
    """Return the bundles of a table, one for each set of thresholds.

    Raises:
        InputError: if there are not as many curves as threads, or no length of a unit fits.
    """
    made = []
    for tried in _tried(table, curves):
        after = dropwhile(lambda bundle: bundle is None, tried)
        run = [bundle for bundle in takewhile(lambda one: one is not None, after) if bundle]
        made.append(run[(len(run) - 1) // 2])
    return made


def make_families(
    table: BundleTable, curves: Sequence[RecordedCurve]
) -> list[list[RecordedBundle]]:
    """For each set of thresholds the bundles of all lengths of a unit that fit, short ones first.

    Of one bundle a little luck decides; of what an allocator does on average over these, less.

    Raises:
        InputError: as of `make_bundles`.
    """
    return [[bundle for bundle in tried if bundle] for tried in _tried(table, curves)]


def _tried(
    table: BundleTable, curves: Sequence[RecordedCurve]
) -> list[list[RecordedBundle | None]]:
    """For each set of thresholds and each length of a unit a bundle; None where it does not fit."""
    num = len(table.deadlines)
    if len(curves) != num:
        found = f"has {len(curves)} curves of bundle {table.name}"
        raise InputError("curves", found, f"{num}, in the order of the table")
    first = [DEEP if k in table.hard else USUAL for k in range(num)]
    second = [SHALLOW if k in table.easy else DEEPER for k in range(num)]
    if len(table.optima) == 1:
        return [_fitting(table, table.name, curves, first, table.optima[0])]
    return [
        _fitting(table, f"{table.name}-{number}", curves, depths, wanted)
        for number, (depths, wanted) in enumerate(
            zip((first, second), table.optima, strict=True), start=1
        )
    ]


def _fitting(
    table: BundleTable,
    name: str,
    curves: Sequence[RecordedCurve],
    depths: Sequence[float],
    wanted: int,
) -> list[RecordedBundle | None]:
    """With the units of time that make the optimum do as many threads as wanted."""
    made = [_bundle(table, name, curves, depths, float(unit)) for unit in _UNITS]
    fits = [bundle if bundle.attainable().num_done == wanted else None for bundle in made]
    if not any(fits):
        found = f"no length of a unit lets the clairvoyant optimum do {wanted}"
        raise InputError("curves", found, "longer curves, or others")
    return fits


def _bundle(
    table: BundleTable,
    name: str,
    curves: Sequence[RecordedCurve],
    depths: Sequence[float],
    unit: float,
) -> RecordedBundle:
    rates = tuple(curve.batches_per_second * unit for curve in curves)
    return RecordedBundle(
        name=name,
        threads=tuple(
            LearningThread(curve.name, 0, deadline, level_at(curve.curve, rate, depth))
            for curve, deadline, rate, depth in zip(
                curves, table.deadlines, rates, depths, strict=True
            )
        ),
        curves=tuple(curve.curve for curve in curves),
        rates=rates,
    )
