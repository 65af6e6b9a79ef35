"""Learners of `auctune.numerics` by name, each with the bound that is stated for it."""

from dataclasses import dataclass
from typing import Literal, Protocol

from auctune.numerics.adaptive_experts import AdaptiveGradient
from auctune.numerics.experts import (
    Anytime,
    ExponentiatedGradient,
    FixedShare,
    KnownRounds,
    SlidingWindow,
    Weights,
)

LearnerName = Literal["known", "anytime", "adaptive", "share", "window"]

LEARNERS: tuple[LearnerName, ...] = ("adaptive", "known", "anytime", "share", "window")


class Learner(Protocol):
    """Weights that learn, and a bound on their regret."""

    def start(self, num_policies: int) -> Weights:
        """Before the first job."""
        ...

    def bound(self, weights: Weights, num_policies: int, num_jobs: int) -> float | None:
        """Of the regret after so many jobs; none where none is stated."""
        ...


@dataclass(frozen=True, slots=True)
class Gradient:
    """Exponentiated gradient, at a rate for K jobs or for any number."""

    rate: KnownRounds | Anytime

    def start(self, num_policies: int) -> Weights:
        """See `Learner`."""
        return ExponentiatedGradient(num_policies, self.rate)

    def bound(self, weights: Weights, num_policies: int, num_jobs: int) -> float:
        """See `Learner`; the bound after K jobs holds before them too."""
        if isinstance(self.rate, KnownRounds):
            num_jobs = self.rate.num_rounds
        return self.rate.regret_bound(num_policies, num_jobs)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """AdaHedge: its bound is made of what the jobs were like."""

    def start(self, num_policies: int) -> Weights:
        """See `Learner`."""
        return AdaptiveGradient(num_policies)

    def bound(self, weights: Weights, num_policies: int, num_jobs: int) -> float:
        """See `Learner`."""
        assert isinstance(weights, AdaptiveGradient)
        return weights.regret_bound()


@dataclass(frozen=True, slots=True)
class Share:
    """Fixed share, tuned for K jobs and S changes; its bound is against so many changes."""

    num_jobs: int
    num_changes: int

    def start(self, num_policies: int) -> Weights:
        """See `Learner`."""
        return FixedShare.tuned(num_policies, self.num_jobs, self.num_changes)

    def bound(self, weights: Weights, num_policies: int, num_jobs: int) -> float:
        """See `Learner`."""
        assert isinstance(weights, FixedShare)
        return weights.regret_bound(num_jobs, min(self.num_changes, num_jobs - 1))


@dataclass(frozen=True, slots=True)
class Window:
    """Sliding window of jobs, at the rate that would suit as many jobs as it remembers."""

    length: int

    def start(self, num_policies: int) -> Weights:
        """See `Learner`."""
        # One policy has nothing to learn, at any rate above 0.
        eta = KnownRounds(self.length).eta(num_policies, 1) or 1.0
        return SlidingWindow(num_policies, eta, self.length)

    def bound(self, weights: Weights, num_policies: int, num_jobs: int) -> None:
        """See `Learner`."""
        return


def make_learner(name: LearnerName, num_jobs: int, num_changes: int, window: int) -> Learner:
    """A learner by its name.

    Args:
        name: one of `LEARNERS`.
        num_jobs: K, for who must know it.
        num_changes: S, for `share`.
        window: jobs remembered, for `window`.

    Raises:
        InputError: naming what a learner cannot use.
    """
    if name == "share":
        made: Learner = Share(num_jobs, num_changes)
    elif name == "window":
        made = Window(window)
    elif name == "adaptive":
        made = Adaptive()
    else:
        made = Gradient(KnownRounds(num_jobs) if name == "known" else Anytime())
    made.start(2)
    return made
