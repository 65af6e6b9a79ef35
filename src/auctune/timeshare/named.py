"""Allocators by name, each with the settings that files and the command line may give.

| name | allocator |
| --- | --- |
| lara | LARA as published, or with another estimator |
| rollout | the best of three orders on drawn needs, the default |
| lrf, etf | least resources, easiest thread first, by the same prediction and exploration |
| ucb, thompson | LARA with optimism or draws in place of exploration |
| laira | LaiRA |
| uniform, stf | even shares, nearest deadline first |
| round_robin, halving | one after another, successive halving |
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from auctune.timeshare.allocation.rule import (
    EASIEST_FIRST,
    LEAST_RESOURCES_FIRST,
    MOORE_HODGSON,
    Rule,
)
from auctune.timeshare.allocator import Allocator
from auctune.timeshare.balancing import Balancing, Exploration, Thompson, Ucb
from auctune.timeshare.baselines import RoundRobin, ShortestFirst, SuccessiveHalving, Uniform
from auctune.timeshare.estimators.estimator import Estimator
from auctune.timeshare.estimators.m4 import M4
from auctune.timeshare.estimators.mixture import Mixture
from auctune.timeshare.estimators.wls import Ls, Wls
from auctune.timeshare.laira import Laira
from auctune.timeshare.planner import Planner
from auctune.timeshare.rollout import Rollout

AllocatorName = Literal[
    "lara",
    "rollout",
    "lrf",
    "etf",
    "ucb",
    "thompson",
    "laira",
    "uniform",
    "stf",
    "round_robin",
    "halving",
]
DEFAULT_ALLOCATOR: AllocatorName = "rollout"
"""Of the service and of bundle files."""

EstimatorName = Literal["wls", "ls", "m4", "mixture"]


def make_estimator(name: EstimatorName, gamma: float) -> Estimator:
    """Return an estimator; only `wls` has a gamma."""
    if name == "wls":
        return Wls(gamma)
    estimators: Mapping[str, Estimator] = {"ls": Ls(), "m4": M4(), "mixture": Mixture()}
    return estimators[name]


@dataclass(frozen=True, slots=True)
class NoSettings:
    """Settings of an allocator that has none."""


@dataclass(frozen=True, slots=True)
class EstimatorSettings:
    """Settings of allocators that plan.

    Attributes:
        estimator: of remaining work.
        gamma: of `wls`.
    """

    estimator: EstimatorName = "wls"
    gamma: float = 0.9

    def planner(self, balancing: Balancing, rule: Rule) -> Planner:
        """Return the planner with this estimator."""
        return Planner(make_estimator(self.estimator, self.gamma), balancing, rule)


@dataclass(frozen=True, slots=True)
class ExploringSettings(EstimatorSettings):
    """Settings of allocators that explore, then plan.

    Attributes:
        exploration: share of the bundle's time that exploring takes.
        batches: explored of each thread; None: by `exploration`.
        unit: what exploring gives every thread alike, batches or time.
    """

    exploration: float = 0.1
    batches: float | None = None
    unit: Literal["batches", "time"] = "batches"


@dataclass(frozen=True, slots=True)
class RolloutSettings(EstimatorSettings):
    """Settings of `auctune.timeshare.rollout.Rollout`.

    Attributes:
        spread: of the logarithm of how far off a forecast in ln s is.
        draws: of needs, of each thread.
        seed: of the draws.
    """

    spread: float = 0.6
    draws: int = 64
    seed: int = 0


@dataclass(frozen=True, slots=True)
class UcbSettings(EstimatorSettings):
    """Settings of LARA with optimism.

    Attributes:
        beta: batches.
    """

    beta: float = 100.0


@dataclass(frozen=True, slots=True)
class ThompsonSettings(EstimatorSettings):
    """Settings of LARA with draws.

    Attributes:
        seed: of the draws.
    """

    seed: int = 0


@dataclass(frozen=True, slots=True)
class NamedAllocator:
    """An entry of the table: the dataclass of the settings, and the allocator made of one."""

    settings: type[Any]
    build: Callable[[Any], Allocator]


def _exploring(rule: Rule) -> NamedAllocator:
    def build(settings: ExploringSettings) -> Allocator:
        exploration = Exploration(settings.batches, settings.exploration, settings.unit)
        return settings.planner(exploration, rule)

    return NamedAllocator(ExploringSettings, build)


ALLOCATORS: Mapping[str, NamedAllocator] = {
    "lara": _exploring(MOORE_HODGSON),
    "rollout": NamedAllocator(
        RolloutSettings,
        lambda own: Rollout(
            make_estimator(own.estimator, own.gamma), own.spread, own.draws, seed=own.seed
        ),
    ),
    "lrf": _exploring(LEAST_RESOURCES_FIRST),
    "etf": _exploring(EASIEST_FIRST),
    "ucb": NamedAllocator(UcbSettings, lambda own: own.planner(Ucb(own.beta), MOORE_HODGSON)),
    "thompson": NamedAllocator(
        ThompsonSettings, lambda own: own.planner(Thompson(own.seed), MOORE_HODGSON)
    ),
    "laira": NamedAllocator(Laira, lambda own: own),
    "uniform": NamedAllocator(NoSettings, lambda _: Uniform()),
    "stf": NamedAllocator(NoSettings, lambda _: ShortestFirst()),
    "round_robin": NamedAllocator(RoundRobin, lambda own: own),
    "halving": NamedAllocator(NoSettings, lambda _: SuccessiveHalving()),
}


def make_allocator(name: str, **settings: Any) -> Allocator:
    """Return a named allocator; settings that are not given have their defaults.

    Raises:
        InputError: naming the setting.
    """
    entry = ALLOCATORS[name]
    return entry.build(entry.settings(**settings))
