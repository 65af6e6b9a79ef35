"""Allocators without a forecast, and the clairvoyant optimum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_count
from auctune.numerics.arrays import Bools, Floats
from auctune.numerics.highs import INFINITY, Program, solve
from auctune.timeshare.allocation.moore_hodgson import TOLERANCE, moore_hodgson
from auctune.timeshare.allocation.rule import share_evenly, winner_takes_all
from auctune.timeshare.allocator import Observation, Shares
from auctune.timeshare.planner import is_active
from auctune.timeshare.thread import BundleArrays, LearningThread, LossCurve, bundle_arrays


@dataclass(frozen=True, slots=True)
class Uniform:
    """UA."""

    @property
    def name(self) -> str:
        return "uniform"

    def start(self, threads: Sequence[LearningThread]) -> "UniformRun":
        return UniformRun(bundle_arrays(threads))


class UniformRun:
    """UA at work."""

    def __init__(self, bundle: BundleArrays) -> None:
        self._bundle = bundle

    def allocate(self, observation: Observation) -> Shares:
        active = is_active(self._bundle.start, self._bundle.deadline, observation)
        eta = np.zeros(len(active))
        share_evenly(active, eta)
        return Shares(eta)


@dataclass(frozen=True, slots=True)
class ShortestFirst:
    """STF."""

    @property
    def name(self) -> str:
        return "stf"

    def start(self, threads: Sequence[LearningThread]) -> "ShortestFirstRun":
        return ShortestFirstRun(bundle_arrays(threads))


class ShortestFirstRun:
    """STF at work."""

    def __init__(self, bundle: BundleArrays) -> None:
        self._bundle = bundle

    def allocate(self, observation: Observation) -> Shares:
        active = is_active(self._bundle.start, self._bundle.deadline, observation)
        eta = np.zeros(len(active))
        if active.any():
            winner_takes_all(self._bundle.deadline, active, eta)
        return Shares(eta)


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """One thread after another, each for a slice of the whole pool.

    Attributes:
        units: of time in a slice.
    """

    units: int = 10

    def __post_init__(self) -> None:
        check_count(self.units, "units", 1)

    @property
    def name(self) -> str:
        return f"round_robin={self.units}"

    def start(self, threads: Sequence[LearningThread]) -> "RoundRobinRun":
        return RoundRobinRun(self.units, bundle_arrays(threads))


class RoundRobinRun:
    """Round robin at work."""

    def __init__(self, units: int, bundle: BundleArrays) -> None:
        self._units, self._bundle = units, bundle
        self._last, self._end = -1, 0

    def allocate(self, observation: Observation) -> Shares:
        active = is_active(self._bundle.start, self._bundle.deadline, observation)
        eta = np.zeros(len(active))
        if active.any():
            if self._last < 0 or observation.time >= self._end or not active[self._last]:
                others = np.arange(self._last + 1, self._last + 1 + len(active)) % len(active)
                self._last = int(others[active[others]][0])
                self._end = observation.time + self._units
            eta[self._last] = 1.0
        return Shares(eta)


@dataclass(frozen=True, slots=True)
class SuccessiveHalving:
    """Successive halving: the better half of the threads in each of log2 K rounds.

    The rounds cut the time from the first start to the last deadline into equal parts, and the
    threads of a round cut the round. Kept are those whose loss is nearest to its threshold, in
    logarithms. A thread that has learned nothing is kept; with no thread of a round active, all
    that are take part.

    Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter
    optimization" (AISTATS 2016).
    """

    @property
    def name(self) -> str:
        return "halving"

    def start(self, threads: Sequence[LearningThread]) -> "SuccessiveHalvingRun":
        return SuccessiveHalvingRun(bundle_arrays(threads))


class SuccessiveHalvingRun:
    """Successive halving at work."""

    def __init__(self, bundle: BundleArrays) -> None:
        num = len(bundle.start)
        self._bundle, self._begin = bundle, float(bundle.start.min())
        rounds = max(1, math.ceil(math.log2(num)))
        self._length = (float(bundle.deadline.max()) - self._begin) / rounds
        self._distance, self._kept = np.full(num, -np.inf), np.arange(num)
        self._round = 0

    def allocate(self, observation: Observation) -> Shares:
        fresh = observation.fresh & (observation.loss > 0)
        self._distance[fresh] = np.log(observation.loss[fresh] / self._bundle.threshold[fresh])
        active = is_active(self._bundle.start, self._bundle.deadline, observation)
        eta = np.zeros(len(active))
        if not active.any():
            return Shares(eta)
        place, within = divmod(observation.time - self._begin, self._length)
        while self._round < int(place):
            self._round += 1
            by_distance = np.argsort(self._distance[self._kept], kind="stable")
            self._kept = np.sort(self._kept[by_distance][: -(-len(self._kept) // 2)])
        kept = self._kept[active[self._kept]]
        if not len(kept):
            kept = np.flatnonzero(active)
        eta[kept[int(within / self._length * len(kept))]] = 1.0
        return Shares(eta)


# The most threads that anybody could have done, knowing their needs: an upper bound.
#
# Needs are true ones: no thread can be seen at its threshold before `LossCurve.need` batches. Given
# them, threads are jobs of length p_k with release b_k and due date d_k on one machine that can
# switch at any time; as many as possible are to be in time.
#
# - All released together: Moore-Hodgson.
# - Else a set S can be done in time if and only if each stretch of time holds the jobs that must
#   lie in it: for all releases r and due dates d
#
#       sum of {p_k : k in S, b_k >= r, d_k <= d} <= d - r.
#
#   That is a program with a 0-1 variable for each thread, solved to the end for small bundles; for
#   larger ones its linear relaxation, rounded down, is still an upper bound.

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
    rate = np.array(batches_per_unit, dtype=np.float64)
    if not len(curves) == len(rate) == len(threads):
        found = f"{len(curves)} curves and {len(rate)} rates for {len(threads)} threads"
        raise InputError("curves", found, "one of each for each thread")
    if not (np.isfinite(rate) & (rate > 0)).all():
        raise InputError("batches_per_unit", f"{rate.tolist()}", "numbers > 0")
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
