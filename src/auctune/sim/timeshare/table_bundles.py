"""Bundles drawn over recorded curves: at random, and those of the paper's tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_count
from auctune.numerics.arrays import Bools, Floats
from auctune.numerics.jit import kernel
from auctune.numerics.rng import stream
from auctune.sim.timeshare.recorded import (
    RecordedBundle,
    RecordedCurve,
    level_at,
    lowest_up_to,
    units_alone,
    windows_of,
)
from auctune.timeshare import LearningThread, LossCurve, ShortestFirst, Uniform
from auctune.timeshare.allocation.moore_hodgson import choose

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
        (window,) = windows_of([rate])
        threshold = level_at(curve.curve, rate, float(random.uniform(*DEPTHS)), window)
        deadline += _units_before(curve, curves, rate, threshold, random)
        due.append(deadline)
        thresholds.append(threshold)
        picked.append(curve)
    for k in random.permutation(num_threads)[: math.floor(num_threads * HARD_SHARE)]:
        thresholds[k] *= HARDER
    rates = tuple(curve.batches_per_second * unit_seconds for curve in picked)
    return RecordedBundle(
        name=f"{num_threads}-{index}",
        threads=tuple(
            LearningThread(f"{k + 1}-{curve.name}", 0, end, threshold)
            for k, (curve, end, threshold) in enumerate(zip(picked, due, thresholds, strict=True))
        ),
        curves=tuple(curve.curve for curve in picked),
        rates=rates,
        windows=windows_of(rates),
    )


def _units_before(
    curve: RecordedCurve,
    curves: Sequence[RecordedCurve],
    rate: float,
    threshold: float,
    random: np.random.Generator,
) -> int:
    others = [o for o in curves if o.kind == curve.kind and o.name != curve.name]
    (window,) = windows_of([rate])
    if others:
        other = others[int(random.integers(len(others)))]
        units = units_alone(other.curve, rate, threshold, window)
        if math.isfinite(units):
            return int(units)
    return int(units_alone(curve.curve, rate, threshold, window))


# The bundles of LARA's Tables 1 and 2 on recorded curves, calibrated by what the paper reports.
#
# The tables' thresholds do not fit other models. What the paper reports of its simplest baselines
# says how much each thread needs: deadlines are the tables', needs are drawn until, by arithmetic
# on the needs, even shares and nearest deadline first do as many threads as in the paper, and a
# clairvoyant as many as LARA does there, both at once and after it explored the threads that LARA
# gives up. Then each thread gets a threshold: the least loss up to a share of its curve, `DEEP` for
# those that cannot be done and `USUAL` for others; and the N with which it takes as long as it
# needs. The bundle counts if it is as in the paper when it is played. Neither LARA nor any other
# allocator that predicts takes part.

USUAL, DEEP, JITTER = 0.5, 0.9, 0.03
# Needs of hard threads over their deadlines that are drawn, even in logarithms.
_HARD_NEEDS = (0.9, 1.2)
_DRAWS, _MOST_TRIES, _FITS = 20_000, 10, 8


@dataclass(frozen=True, slots=True)
class Reported:
    """What the paper reports of a set of thresholds.

    Attributes:
        uniform, stf, lara: threads done by each allocator.
        hard: threads that cannot be done, or hardly, from 0.
        explored: units of time that exploring takes of the threads that LARA gives up.
        usual: needs of other threads over their deadlines, among which some agree.
    """

    uniform: int
    stf: int
    lara: int
    hard: tuple[int, ...]
    explored: float
    usual: tuple[float, float]


@dataclass(frozen=True, slots=True)
class BundleTable:
    """What is kept of a table.

    Attributes:
        name: of the curves' bundle.
        deadlines: d of each thread, in the order of the curves.
        reported: by set of thresholds.
    """

    name: str
    deadlines: tuple[int, ...]
    reported: tuple[Reported, ...]

    def names(self) -> tuple[str, ...]:
        """Names of its bundles."""
        if len(self.reported) == 1:
            return (self.name,)
        return tuple(f"{self.name}-{number}" for number in range(1, len(self.reported) + 1))


PURE = BundleTable(
    "pure",
    (500, 570, 590, 610, 630),
    (Reported(0, 0, 4, hard=(0,), explored=8000 / 163, usual=(0.18, 0.3)),),
)
"""Table 1; 8,000 batches of each thread are explored, at 163 a unit of the one given up."""

MIXED = BundleTable(
    "mixed",
    (530, 540, 545, 585, 625, 655, 685, 690, 700, 710),
    (
        Reported(6, 2, 8, hard=(0, 1), explored=2 * 4000 / 176, usual=(0.03, 0.4)),
        Reported(3, 5, 6, hard=(), explored=4 * 4000 / 125, usual=(0.03, 1.0)),
    ),
)
"""Table 2; from 4,000 batches of each thread on exploring is best, at 176 a unit of the first two
and 125 of the mean thread. With the second thresholds STF does five: no thread can take its time.
"""


def table_bundles(curves: Sequence[RecordedCurve]) -> tuple[RecordedBundle, ...]:
    """pure, mixed-1 and mixed-2, of those whose curves are there.

    Raises:
        InputError: if no curve is of either bundle, there are not as many as the table has threads,
            or they cannot be calibrated.
    """
    made: list[RecordedBundle] = []
    for table in (PURE, MIXED):
        own = [curve for curve in curves if curve.bundle == table.name]
        if own:
            made += (calibrated_bundle(table, own, number) for number in range(len(table.reported)))
    if not made:
        raise InputError("curves", "has none of bundle pure or mixed", "recorded curves of one")
    return tuple(made)


def calibrated_bundle(
    table: BundleTable,
    curves: Sequence[RecordedCurve],
    number: int = 0,
    *,
    seed: int = 0,
    index: int = 0,
) -> RecordedBundle:
    """Return a bundle that agrees with what the paper reports of its own.

    Args:
        table: of the paper.
        curves: one for each thread, in order.
        number: of the set of thresholds, from 0.
        seed: of all bundles.
        index: of this one among them.

    Raises:
        InputError: if there are not as many curves as threads, or no bundle was found.
    """
    _check_curves(table, curves)
    name, reported = table.names()[number], table.reported[number]
    random = stream(seed, "calibrated bundle", name, index)
    for _ in range(_MOST_TRIES):
        needs = _draw_needs(table, reported, random)
        for need in needs[:4]:
            bundle = _bundle(name, table, reported.hard, curves, need, random)
            if bundle is not None and _agrees(bundle, reported):
                return bundle
    found = f"no bundle {name} does what the paper reports"
    raise InputError("curves", found, "longer curves, or others")


def uncalibrated_bundle(
    table: BundleTable,
    curves: Sequence[RecordedCurve],
    number: int = 0,
    *,
    seed: int = 0,
    index: int = 0,
) -> RecordedBundle:
    """Return a bundle whose needs are drawn as for `calibrated_bundle`, and none is rejected.

    Only where the noise of a curve allows no such threshold they are drawn again.

    Args:
        table, curves, number, seed, index: as of `calibrated_bundle`.

    Raises:
        InputError: if there are not as many curves as threads.
    """
    _check_curves(table, curves)
    name, reported = table.names()[number], table.reported[number]
    random = stream(seed, "uncalibrated bundle", name, index)
    while True:
        (needs,) = _random_needs(table, reported, random, 1)
        bundle = _bundle(name, table, reported.hard, curves, needs, random)
        if bundle is not None:
            return bundle


def _check_curves(table: BundleTable, curves: Sequence[RecordedCurve]) -> None:
    if len(curves) != len(table.deadlines):
        found = f"has {len(curves)} curves of bundle {table.name}"
        expected = f"{len(table.deadlines)}, in the order of the table"
        raise InputError("curves", found, expected)


def _agrees(bundle: RecordedBundle, reported: Reported) -> bool:
    return (
        bundle.attainable().num_done == reported.lara
        and bundle.play(ShortestFirst()).num_done == reported.stf
        and bundle.play(Uniform()).num_done == reported.uniform
    )


def _draw_needs(table: BundleTable, reported: Reported, random: np.random.Generator) -> Floats:
    """[i, k] needs in units of time of the whole pool that agree with what is reported."""
    deadline = np.array(table.deadlines, dtype=np.float64)
    drawn = _random_needs(table, reported, random, _DRAWS)
    fits = np.empty(_DRAWS, dtype=np.bool_)
    counts = (reported.uniform, reported.stf, reported.lara)
    check_needs(drawn, deadline, reported.explored, counts, fits)
    return drawn[fits]


def _random_needs(
    table: BundleTable, reported: Reported, random: np.random.Generator, num: int
) -> Floats:
    """[num, k] needs, even in logarithms within their ranges."""
    deadline = np.array(table.deadlines, dtype=np.float64)
    ranges = [_HARD_NEEDS if k in reported.hard else reported.usual for k in range(len(deadline))]
    low, high = np.log(ranges).T
    return np.ceil(deadline * np.exp(random.uniform(low, high, (num, len(deadline)))))


@kernel
def check_needs(
    needs: Floats, deadline: Floats, explored: float, counts: tuple[int, int, int], fits: Bools
) -> None:
    """Check which needs let allocators do as many threads as reported.

    Args:
        needs: [i, k] units of time of the whole pool.
        deadline: [k] rising; all threads start at 0.
        explored: units of time that a clairvoyant loses at first.
        counts: of even shares, nearest deadline first and the clairvoyant, with and without loss.
        fits: [i] written.
    """
    num = len(deadline)
    order, kept = np.arange(num), np.empty(num, dtype=np.bool_)
    for i in range(len(needs)):
        fits[i] = (
            done_by_deadline(needs[i], deadline) == counts[1]
            and done_evenly(needs[i], deadline) == counts[0]
            and choose(order, needs[i], deadline - explored, kept) == counts[2]
            and choose(order, needs[i], deadline, kept) == counts[2]
        )


@kernel
def done_by_deadline(needs: Floats, deadline: Floats) -> int:
    """Return how many threads nearest deadline first does; [k] needs and rising deadlines."""
    time, count = 0.0, 0
    for k in range(len(needs)):
        count += time + needs[k] <= deadline[k]
        time = max(time, min(time + needs[k], deadline[k]))
    return count


@kernel
def done_evenly(needs: Floats, deadline: Floats) -> int:
    """Return how many threads even shares do; [k] needs and rising deadlines."""
    rest, time, count = needs.copy(), 0.0, 0
    while True:
        active, step = 0, np.inf
        for k in range(len(rest)):
            active += rest[k] > 0.0 and deadline[k] > time
        if not active:
            return count
        for k in range(len(rest)):
            if rest[k] > 0.0 and deadline[k] > time:
                step = min(step, rest[k] * active, deadline[k] - time)
        for k in range(len(rest)):
            if rest[k] > 0.0 and deadline[k] > time:
                rest[k] -= step / active
                if rest[k] <= 1e-9:
                    rest[k] = 0.0
                    count += 1
        time += step


def _bundle(
    name: str,
    table: BundleTable,
    hard: tuple[int, ...],
    curves: Sequence[RecordedCurve],
    needs: Floats,
    random: np.random.Generator,
) -> RecordedBundle | None:
    """A bundle whose threads alone need as long; None where the noise of a curve is in the way."""
    fitted = []
    for k, (curve, need) in enumerate(zip(curves, needs.tolist(), strict=True)):
        depth = (DEEP if k in hard else USUAL) + float(random.uniform(-JITTER, JITTER))
        found = _fit(curve.curve, depth, need)
        if found is None:
            return None
        fitted.append(found)
    rates = tuple(rate for rate, _ in fitted)
    return RecordedBundle(
        name=name,
        threads=tuple(
            LearningThread(curve.name, 0, deadline, threshold)
            for curve, deadline, (_, threshold) in zip(curves, table.deadlines, fitted, strict=True)
        ),
        curves=tuple(curve.curve for curve in curves),
        rates=rates,
        windows=windows_of(rates),
    )


def _fit(curve: LossCurve, depth: float, need: float) -> tuple[float, float] | None:
    """N and eps with which a thread alone is first at the least loss up to a depth after `need`.

    None where a unit would be less than a batch, or noise is in the way.
    """
    rate = depth * curve.num_batches / need
    for _ in range(_FITS):
        if rate < 1.0:
            return None
        (window,) = windows_of([rate])
        threshold = lowest_up_to(curve, rate, depth, window)
        alone = units_alone(curve, rate, threshold, window)
        if abs(alone - need) <= 1.0:
            return rate, threshold
        rate *= alone / need
    return None
