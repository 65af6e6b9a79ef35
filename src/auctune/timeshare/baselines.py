"""Allocators without a forecast."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain.checks import check_count
from auctune.timeshare.allocation.rule import share_evenly, winner_takes_all
from auctune.timeshare.allocator import Observation, Shares
from auctune.timeshare.planner import is_active
from auctune.timeshare.thread import BundleArrays, LearningThread, bundle_arrays


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
