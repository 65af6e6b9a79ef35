"""How an allocator balances exploring and planning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_count, check_finite
from auctune.numerics.arrays import Bools, Floats
from auctune.numerics.rng import stream
from auctune.timeshare.allocator import Observation
from auctune.timeshare.estimators.estimator import SPREAD, Needs
from auctune.timeshare.thread import LearningThread


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
# none is there a plan. H is the same number of batches for every thread (8,000 for the paper's
# Table 1, 335 of its 630 units), or follows from a share of the time: exploring all K threads of a
# bundle takes that share of the time from the first start to the last deadline,
# H = share (max d - min b) / sum of 1 / N_k. Beside it stands equal time for every thread,
# H_k = share N_k (max d - min b) / K.


@dataclass(frozen=True, slots=True)
class Exploration:
    """How much of each thread is seen before it is planned with.

    Attributes:
        batches: H, of each thread; None: by `share`.
        share: of a bundle's time, in [0, 1].
        unit: what a share of the time gives every thread alike, batches or time.
    """

    batches: float | None = None
    share: float = 0.1
    unit: Literal["batches", "time"] = "batches"

    def __post_init__(self) -> None:
        if self.batches is not None:
            check_finite(self.batches, "batches", "a number >= 0")
        if not 0 <= self.share <= 1:
            raise InputError("share", f"{self.share!r}", "a number >= 0 and <= 1")

    @property
    def name(self) -> str:
        if self.batches is not None:
            return f"h={self.batches:g}"
        return f"explore={self.share:g}" + (" of time" if self.unit == "time" else "")

    def start(self, threads: Sequence[LearningThread]) -> "ExplorationRun":
        first = min(thread.start for thread in threads)
        last = max(thread.deadline for thread in threads)
        return ExplorationRun(self, self.share * (last - first))


class ExplorationRun:
    """Explore, then exploit."""

    def __init__(self, params: Exploration, units: float) -> None:
        self._params, self._units = params, units

    def explored(self, observation: Observation, active: Bools) -> Bools:
        rate = observation.batches_per_unit
        enough: float | Floats
        if self._params.batches is not None:
            enough = self._params.batches
        elif self._params.unit == "time":
            enough = self._units / len(rate) * rate
        else:
            enough = self._units / float((1.0 / rate).sum())
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
