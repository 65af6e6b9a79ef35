"""How an allocator balances exploring and planning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_count, check_finite
from auctune.numerics.arrays import Bools, Floats
from auctune.numerics.rng import stream
from auctune.timeshare.allocation.rule import apart, check_near
from auctune.timeshare.allocator import Observation
from auctune.timeshare.estimators.estimator import SPREAD, Needs
from auctune.timeshare.thread import BundleArrays, LearningThread, bundle_arrays


class BalancingRun(Protocol):
    """A balance at work on one bundle."""

    def explored(self, observation: Observation, active: Bools) -> Bools:
        """Return [k], the active threads that share this unit evenly; if there are none, plan."""
        ...

    def corrected(self, observation: Observation, needs: Needs) -> Floats:
        """[k] the needs to plan with, in batches: >= 1 or infinite."""
        ...


class Balancing(Protocol):
    """Parameters of a balance: a frozen dataclass."""

    @property
    def name(self) -> str:
        """As tables name it."""
        ...

    def start(self, threads: Sequence[LearningThread]) -> BalancingRun:
        """At work on one bundle."""
        ...


# Explore, then exploit; LARA, Algorithm 2.
#
# Active threads that have learned at most H_k batches share the pool evenly; only when there are
# none is there a plan. H_k is a number of batches (8,000 for the paper's Table 1, half of its
# time), or follows from a share of the time: exploring all K threads of a bundle takes that share
# of the time from the first start to the last deadline, H_k = share N_k (max d - min b) / K.


@dataclass(frozen=True, slots=True)
class Exploration:
    """How much of each thread is seen before it is planned with.

    Attributes:
        batches: H, of each thread; None: by `share`.
        share: of a bundle's time, in [0, 1].
    """

    batches: float | None = None
    share: float = 0.1

    def __post_init__(self) -> None:
        if self.batches is not None:
            check_finite(self.batches, "batches", "a number >= 0")
        if not 0 <= self.share <= 1:
            raise InputError("share", f"{self.share!r}", "a number >= 0 and <= 1")

    @property
    def name(self) -> str:
        return f"h={self.batches:g}" if self.batches is not None else f"explore={self.share:g}"

    def start(self, threads: Sequence[LearningThread]) -> "ExplorationRun":
        if self.batches is not None:
            return ExplorationRun(self.batches, 0.0)
        first = min(thread.start for thread in threads)
        last = max(thread.deadline for thread in threads)
        return ExplorationRun(0.0, self.share * (last - first) / len(threads))


class ExplorationRun:
    """Explore, then exploit."""

    def __init__(self, batches: float, units: float) -> None:
        self._batches, self._units = batches, units

    def explored(self, observation: Observation, active: Bools) -> Bools:
        enough = self._batches + self._units * observation.batches_per_unit
        return active & (observation.samples <= enough)

    def corrected(self, observation: Observation, needs: Needs) -> Floats:
        return needs.batches


def unseen(observation: Observation, active: Bools) -> Bools:
    """[k] active threads that have learned nothing: whoever explores by need begins with them."""
    return active & (observation.samples < 1)


def at_least_one(batches: Floats) -> Floats:
    """Needs that a correction may have brought under a batch."""
    return np.maximum(1.0, batches)


# Optimism: needs less a bonus for what was seen little of; LARA, Remark 2.
#
# S'_k = S_k - beta sqrt(ln(tau - b_k) / sum of eta_k), at least one batch.
#
# It is defined once a unit has passed since the start and a share was received; threads that have
# learned nothing are explored first.


@dataclass(frozen=True, slots=True)
class Ucb:
    """The bonus.

    Attributes:
        beta: batches, >= 0.
    """

    beta: float = 100.0

    def __post_init__(self) -> None:
        check_finite(self.beta, "beta", "a number >= 0")

    @property
    def name(self) -> str:
        return f"ucb={self.beta:g}"

    def start(self, threads: Sequence[LearningThread]) -> "UcbRun":
        start = np.array([thread.start for thread in threads], dtype=np.float64)
        return UcbRun(self.beta, start)


class UcbRun:
    """Optimism at work."""

    def __init__(self, beta: float, start: Floats) -> None:
        self._beta, self._start = beta, start

    def explored(self, observation: Observation, active: Bools) -> Bools:
        return unseen(observation, active)

    def corrected(self, observation: Observation, needs: Needs) -> Floats:
        elapsed = observation.time - self._start
        defined = (elapsed > 0) & (observation.received > 0)
        logs = np.log(np.where(defined, elapsed, 1.0))
        bonus = self._beta * np.sqrt(logs / np.where(defined, observation.received, 1.0))
        return at_least_one(needs.batches - bonus)


# Thompson sampling: plan with needs drawn from what they may be.
#
# The logarithm of a need is drawn from two half normals about the said one, that have its deciles.
# A need said to be infinite is drawn finite, at its low decile, one time in ten. Threads that have
# learned nothing are explored first.


@dataclass(frozen=True, slots=True)
class Thompson:
    """Draws.

    Attributes:
        seed: of all of them.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.seed, "seed", 0)

    @property
    def name(self) -> str:
        return "thompson"

    def start(self, threads: Sequence[LearningThread]) -> "ThompsonRun":
        return ThompsonRun(self.seed)


class ThompsonRun:
    """Draws for one bundle, the same for a unit of time whenever it is asked for."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def explored(self, observation: Observation, active: Bools) -> Bools:
        return unseen(observation, active)

    def corrected(self, observation: Observation, needs: Needs) -> Floats:
        random = stream(self._seed, "thompson", observation.time)
        z = random.standard_normal(len(needs.batches)) / SPREAD
        finite = np.isfinite(needs.batches)
        middle = np.log(np.maximum(1.0, np.where(finite, needs.batches, 1.0)))
        low = np.log(np.maximum(1.0, np.where(finite, needs.low, 1.0)))
        # An infinite upper decile is as far as the float goes.
        high = np.log(np.where(finite, np.clip(needs.high, 1.0, 1e300), 1.0))
        drawn = np.exp(
            middle + np.where(z < 0, z * (middle - low), z * (high - middle)).clip(max=600)
        )
        rare = np.where(z < -1.0, needs.low, np.inf)
        return at_least_one(np.ceil(np.where(finite, drawn, rare)))


# The benefit of the doubt: no thread is given up before its loss says clearly that it fails.
#
# A thread that is wrongly given up is lost, one that is wrongly kept costs time only while it is
# served. So needs are read in favour of the thread until enough is known:
#
# - of fewer than `units` units of time: it needs next to nothing, or, see below, a part of the
# time;
# - a need that fits the time left: as it is said;
# - one that does not, but whose low decile is at most (1 + doubt / n) of the time left, n the units
#   learned from: all the time left, so that it goes first where time is short;
# - else it is out of reach.
#
# There is no exploring for its own sake. While deadlines are far apart (`Closeness`), threads are
# looked at when it matters, with the whole pool, and not with a part of it long before. While they
# are close together, nobody must be first, and a thread that is not known may not hide behind
# needing nothing: it is taken to need half of what an even part of the time left comes to.

# Of an even part of the time left, what an unknown thread is taken to need.
PART = 0.5


@dataclass(frozen=True, slots=True)
class OptimisticFilter:
    """How much doubt there is.

    Attributes:
        units: of time that a thread learned in before its need is believed.
        doubt: by how much, divided by those units, a low decile may exceed the time left.
        near: how close deadlines are together while unknown threads need a part of the time.
    """

    units: int = 8
    doubt: float = 8.0
    near: float = 0.5

    def __post_init__(self) -> None:
        check_count(self.units, "units", 1)
        check_finite(self.doubt, "doubt", "a number >= 0")
        check_near(self.near)

    @property
    def name(self) -> str:
        return f"doubt={self.doubt:g}/{self.units}"

    def start(self, threads: Sequence[LearningThread]) -> "DoubtRun":
        return DoubtRun(self, bundle_arrays(threads))


class DoubtRun:
    """The benefit of the doubt at work."""

    def __init__(self, params: OptimisticFilter, bundle: BundleArrays) -> None:
        self._params, self._start, self._deadline = params, bundle.start, bundle.deadline
        self._units = np.zeros(len(bundle.start))

    def explored(self, observation: Observation, active: Bools) -> Bools:
        self._units += observation.fresh
        return np.zeros(len(active), dtype=np.bool_)

    def corrected(self, observation: Observation, needs: Needs) -> Floats:
        left = self._deadline - observation.time
        room = left * observation.batches_per_unit
        favour = 1.0 + self._params.doubt / np.maximum(self._units, 1.0)
        doubtful = np.where(needs.low <= favour * room, room, np.inf)
        believed = np.where(needs.batches <= room, needs.batches, doubtful)
        unknown = self._units < self._params.units
        if unknown.any():
            believed[unknown] = self._unknown(observation, left, unknown | np.isfinite(believed))[
                unknown
            ]
        return at_least_one(believed)

    def _unknown(self, observation: Observation, left: Floats, possible: Bools) -> Floats:
        """[k] what threads are taken to need before anything is known of them."""
        possible = possible & (left > 0) & (self._start <= observation.time) & ~observation.done
        if not possible.any() or apart(left, possible, self._params.near):
            return np.ones(len(left))
        even = left[possible].max() / np.count_nonzero(possible)
        rate = observation.batches_per_unit
        needs: Floats = np.minimum(PART * even * rate - observation.samples, left * rate)
        return needs
