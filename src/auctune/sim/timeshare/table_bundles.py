"""The bundles of LARA's Tables 1 and 2 on recorded curves: N, d and eps by one rule.

The tables' thresholds do not fit other models. In their place, before any allocator is run:

- deadlines are the tables', in units of time;
- eps_k is the loss at a share of the curve, its depth: `USUAL` for most threads, `DEEP` for those
  that the tables make hard (the first of Table 1, the first two of Table 2); with the second
  thresholds of Table 2 `SHALLOW` for threads 4 and 9, which it makes easy, and `DEEPER` for the
  others, which it makes harder;
- N_k is the curve's rate times the length of a unit of time. That length, one for each bundle, is
  the middle (of logarithms) of those with which a clairvoyant does 4 of 5 threads; 8 of 10 with the
  first thresholds of Table 2, and 6 with the second. It runs one thread after another, with the
  whole pool for each: what it does can be done, where the upper bound also counts on luck with the
  noise of single batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile

import numpy as np

from auctune.domain import InputError
from auctune.sim.timeshare.bundle import RecordedBundle, level_at
from auctune.sim.timeshare.recorded import RecordedCurve
from auctune.timeshare import LearningThread

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
    """The bundles of a table, one for each set of thresholds.

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
    """For each set of thresholds and each length of a unit a bundle; none where it does not fit."""
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
