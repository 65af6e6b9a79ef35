"""The most threads that anybody could have done, knowing their needs: an upper bound.

Needs are true ones: no thread can be seen at its threshold before `LossCurve.need` batches. Given
them, threads are jobs of length p_k with release b_k and due date d_k on one machine that can
switch at any time; as many as possible are to be in time.

- All released together: Moore-Hodgson.
- Else a set S can be done in time if and only if each stretch of time holds the jobs that must
  lie in it: for all releases r and due dates d

      sum of {p_k : k in S, b_k >= r, d_k <= d} <= d - r.

  That is a program with a 0-1 variable for each thread, solved to the end for small bundles; for
  larger ones its linear relaxation, rounded down, is still an upper bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Bools, Floats
from auctune.numerics.highs import INFINITY, Program, solve
from auctune.timeshare.allocation.moore_hodgson import TOLERANCE, moore_hodgson
from auctune.timeshare.thread import (
    BundleArrays,
    LearningThread,
    LossCurve,
    bundle_arrays,
    unit_rates,
)

# Beyond so many threads with releases, the relaxation alone.
MOST_EXACT = 40

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class ClairvoyantOptimum:
    """The most threads that could have been done.

    Attributes:
        num_done: how many; nobody does more.
        chosen: [k] which; None where only a bound is known.
    """

    num_done: int
    chosen: Bools | None


def true_needs(
    threads: Sequence[LearningThread],
    curves: Sequence[LossCurve],
    batches_per_unit: Sequence[float],
    windows: Sequence[float] | None = None,
) -> Floats:
    """[k] units of time of the whole pool that each thread really needs; infinite for never.

    Success is judged as in `play`.

    Raises:
        InputError: if there is not one curve and one N > 0 for each thread.
    """
    rate = unit_rates(threads, curves, batches_per_unit)
    whole: Sequence[float | None] = windows or [None] * len(threads)
    judged = zip(threads, curves, whole, strict=True)
    return np.array([curve.need(one.threshold, window) for one, curve, window in judged]) / rate


def clairvoyant_optimum(threads: Sequence[LearningThread], needs: Floats) -> ClairvoyantOptimum:
    """Return the most threads that can be done.

    Args:
        threads: of the bundle.
        needs: [k] units of time of the whole pool, > 0; infinite for never.

    Raises:
        InputError: if a need is not above 0, or there is not one for each thread.
    """
    bundle = bundle_arrays(threads)
    if needs.shape != bundle.start.shape or not (needs > 0).all():
        raise InputError("needs", f"{needs.tolist()}", "a number > 0 for each thread")
    first = bundle.start.min()
    if (bundle.start == first).all():
        chosen = moore_hodgson(needs, bundle.deadline - first)
        return ClairvoyantOptimum(int(chosen.sum()), chosen)
    exact = len(threads) <= MOST_EXACT
    solved = solve(_program(bundle, needs, exact))
    assert solved.objective is not None
    assert solved.primal is not None
    if not exact:
        return ClairvoyantOptimum(int(np.floor(solved.objective + _ROUNDING)), None)
    chosen = solved.primal > 0.5
    return ClairvoyantOptimum(int(chosen.sum()), chosen)


def _program(bundle: BundleArrays, needs: Floats, exact: bool) -> Program:
    """One column a thread, one row a stretch of time that holds threads."""
    possible = needs <= (bundle.deadline - bundle.start) * (1.0 + TOLERANCE)
    lengths = np.where(possible, needs, 0.0)
    releases, dues = np.unique(bundle.start), np.unique(bundle.deadline)
    stretches = [(r, d) for r in releases for d in dues if r < d]
    inside = np.array([(bundle.start >= r) & (bundle.deadline <= d) for r, d in stretches])
    inside &= possible
    entries = [np.flatnonzero(column) for column in inside.T]
    room = np.array([d - r for r, d in stretches])
    num = len(needs)
    return Program(
        cost=np.ones(num),
        lower=np.zeros(num),
        upper=possible.astype(np.float64),
        row_lower=np.full(len(stretches), -INFINITY),
        row_upper=room * (1.0 + TOLERANCE),
        starts=np.concatenate([[0], np.cumsum([len(rows) for rows in entries])]).astype(np.int32),
        rows=np.concatenate(entries).astype(np.int32),
        values=np.concatenate(
            [np.full(len(rows), length) for rows, length in zip(entries, lengths, strict=True)]
        ),
        whole=np.full(num, True) if exact else None,
        maximize=True,
    )
