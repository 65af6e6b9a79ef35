"""Allocators by name, each with the settings that files and the command line may give.

| name | allocator |
| --- | --- |
| lara | LARA as published, or with another estimator |
| headway | auctune's own |
| lrf, etf | least resources, easiest thread first, by the same prediction and exploration |
| ucb, thompson | LARA with optimism or draws in place of exploration |
| uniform, stf | even shares, nearest deadline first |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from auctune.timeshare.allocation.rule import (
    EasiestFirst,
    LeastResourcesFirst,
    MooreHodgson,
    Paced,
    Rule,
)
from auctune.timeshare.allocator import Allocator
from auctune.timeshare.balancing import Doubt, Exploration, Thompson, Ucb
from auctune.timeshare.baselines import ShortestFirst, Uniform
from auctune.timeshare.estimators.estimator import Estimator
from auctune.timeshare.estimators.m4 import M4
from auctune.timeshare.estimators.mixture import Mixture
from auctune.timeshare.estimators.wls import Ls, Wls
from auctune.timeshare.planner import Planner

AllocatorName = Literal["lara", "headway", "lrf", "etf", "ucb", "thompson", "uniform", "stf"]
DEFAULT_ALLOCATOR: AllocatorName = "headway"
"""Of the service and of bundle files."""

EstimatorName = Literal["wls", "ls", "m4", "mixture"]


def make_estimator(name: EstimatorName, gamma: float) -> Estimator:
    """Return an estimator; only `wls` has a gamma."""
    if name == "wls":
        return Wls(gamma)
    estimators: Mapping[str, Estimator] = {"ls": Ls(), "m4": M4(), "mixture": Mixture()}
    return estimators[name]


class Settings(Protocol):
    """Settings of a named allocator: a frozen dataclass."""

    def allocator(self) -> Allocator:
        """Return the allocator.

        Raises:
            InputError: naming the setting.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExploringSettings:
    """Of allocators that explore, then plan.

    Attributes:
        estimator: foretells needs.
        gamma: of `wls`.
        exploration: share of the bundle's time that exploring takes.
        batches: explored of each thread; none: by `exploration`.
    """

    estimator: EstimatorName = "wls"
    gamma: float = 0.9
    exploration: float = 0.1
    batches: float | None = None

    def planner(self, rule: Rule) -> Planner:
        """Return the planner with a rule."""
        exploration = Exploration(self.batches, self.exploration)
        return Planner(make_estimator(self.estimator, self.gamma), exploration, rule)


@dataclass(frozen=True, slots=True)
class LaraSettings(ExploringSettings):
    """Of LARA."""

    def allocator(self) -> Allocator:
        """LARA."""
        return self.planner(MooreHodgson())


@dataclass(frozen=True, slots=True)
class LrfSettings(ExploringSettings):
    """Of LRF."""

    def allocator(self) -> Allocator:
        """LRF."""
        return self.planner(LeastResourcesFirst())


@dataclass(frozen=True, slots=True)
class EtfSettings(ExploringSettings):
    """Of ETF."""

    def allocator(self) -> Allocator:
        """ETF."""
        return self.planner(EasiestFirst())


@dataclass(frozen=True, slots=True)
class HeadwaySettings:
    """Of auctune's own.

    Attributes:
        estimator: foretells needs.
        gamma: of `wls`.
        units: of time that a thread learned in before its need is believed.
        doubt: by how much, divided by those units, a low decile may exceed the time left.
        near: least time left over the greatest from which on all threads share; above 1: never.
    """

    estimator: EstimatorName = "wls"
    gamma: float = 0.9
    units: int = 8
    doubt: float = 8.0
    near: float = 0.5

    def allocator(self) -> Allocator:
        """The benefit of the doubt, the earliest first or all at once."""
        estimator = make_estimator(self.estimator, self.gamma)
        doubt = Doubt(self.units, self.doubt, self.near)
        return Planner(estimator, doubt, Paced(self.near))


@dataclass(frozen=True, slots=True)
class UcbSettings:
    """Of LARA with optimism.

    Attributes:
        estimator: foretells needs.
        gamma: of `wls`.
        beta: batches.
    """

    estimator: EstimatorName = "wls"
    gamma: float = 0.9
    beta: float = 100.0

    def allocator(self) -> Allocator:
        """LARA with optimism."""
        return Planner(make_estimator(self.estimator, self.gamma), Ucb(self.beta), MooreHodgson())


@dataclass(frozen=True, slots=True)
class ThompsonSettings:
    """Of LARA with draws.

    Attributes:
        estimator: foretells needs.
        gamma: of `wls`.
        seed: of the draws.
    """

    estimator: EstimatorName = "wls"
    gamma: float = 0.9
    seed: int = 0

    def allocator(self) -> Allocator:
        """LARA with draws."""
        estimator = make_estimator(self.estimator, self.gamma)
        return Planner(estimator, Thompson(self.seed), MooreHodgson())


@dataclass(frozen=True, slots=True)
class UniformSettings:
    """Even shares have none."""

    def allocator(self) -> Allocator:
        """Even shares."""
        return Uniform()


@dataclass(frozen=True, slots=True)
class StfSettings:
    """STF has none."""

    def allocator(self) -> Allocator:
        """STF."""
        return ShortestFirst()


NAMED: Mapping[str, type[Settings]] = {
    "lara": LaraSettings,
    "headway": HeadwaySettings,
    "lrf": LrfSettings,
    "etf": EtfSettings,
    "ucb": UcbSettings,
    "thompson": ThompsonSettings,
    "uniform": UniformSettings,
    "stf": StfSettings,
}
