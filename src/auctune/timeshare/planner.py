"""Allocators that plan: an estimator, a balance of exploring and planning, and a rule.

Each unit of time (LARA, Algorithm 2): learn the losses of the unit before; if there are threads to
be explored, share evenly among them; else predict the needs, correct them, and share by the rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from auctune.numerics.arrays import Bools, Floats
from auctune.timeshare.allocation.rule import MOORE_HODGSON, Demand, Rule
from auctune.timeshare.allocator import Observation, Shares
from auctune.timeshare.balancing import Balancing, Exploration
from auctune.timeshare.estimators.estimator import Estimator
from auctune.timeshare.estimators.wls import Wls
from auctune.timeshare.thread import LearningThread, bundle_arrays


@dataclass(frozen=True, slots=True)
class Planner:
    """An allocator that predicts needs; by default LARA as published.

    Attributes:
        estimator: predicts needs.
        balancing: says what is explored first, and corrects needs.
        rule: makes shares of them.
    """

    estimator: Estimator = field(default_factory=Wls)
    balancing: Balancing = field(default_factory=Exploration)
    rule: Rule = field(default=MOORE_HODGSON)

    @property
    def name(self) -> str:
        return f"{self.rule.name}({self.estimator.name},{self.balancing.name})"

    def start(self, threads: Sequence[LearningThread]) -> "PlannerRun":
        return PlannerRun(self, threads)


def lara(exploration: Exploration | None = None, gamma: float = 0.9) -> Planner:
    """LARA as published: WLS, explore-then-exploit, Algorithm 1 with shares just in time."""
    return Planner(Wls(gamma), exploration or Exploration(), MOORE_HODGSON)


class PlannerRun:
    """A planner at work."""

    def __init__(self, params: Planner, threads: Sequence[LearningThread]) -> None:
        self._bundle = bundle_arrays(threads)
        self._window = self._bundle.deadline - self._bundle.start
        self._bank = params.estimator.start_bank(len(threads))
        self._balancing = params.balancing.start(threads)
        self._rule = params.rule

    def allocate(self, observation: Observation) -> Shares:
        self._bank.observe(observation.samples, observation.loss, observation.fresh)
        active = is_active(self._bundle.start, self._bundle.deadline, observation)
        eta = np.zeros(len(active))
        if not active.any():
            return Shares(eta)
        explored = self._balancing.explored(observation, active)
        count = np.count_nonzero(explored)
        if count:
            eta[explored] = 1.0 / count
            return Shares(eta)
        needs = self._bank.needs(self._bundle.threshold)
        demand = Demand(
            order=self._bundle.order,
            active=active,
            # A loss at its threshold in one unit is a batch away from success over a window.
            need=np.maximum(1.0, self._balancing.corrected(observation, needs)),
            rate=observation.batches_per_unit,
            slack=self._bundle.deadline - observation.time,
            window=self._window,
        )
        self._rule.share(demand, eta)
        return Shares(eta)


def is_active(start: Floats, deadline: Floats, observation: Observation) -> Bools:
    """[k] threads that may learn in the unit that begins and are not done."""
    time = observation.time
    return (start <= time) & (deadline > time) & ~observation.done
