"""Renting on quantiles: a stochastic program over all slots to the deadline.

Beyond the paper. Each slot to come has as many scenarios as the forecast has quantile levels; a
slot is seen before it is decided, so that the plan knows it may still react (a window program with
recourse, `auctune.spot.window.expectation`). Prices and counts of a slot are taken as
uncorrelated, by pairing their quantiles in a fixed order that mixes high with low; a quantile holds
on from slot to slot with probability `persistence`, since what was scarcer than thought stays so.
The best plan maximizes the expected utility subject to

    P(work is left at d) <= risk,    E[cost, ending included] <= cost_cap - spent.

Both become prices in that program (`auctune.spot.window.limits`).
"""

from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.spot.forecasts.forecast import Forecast, check_forecast, point_forecast
from auctune.spot.job import SpotJob
from auctune.spot.policies.baselines import counted
from auctune.spot.policy import SpotAllocation, SpotObservation
from auctune.spot.terms import JobConstants, job_constants
from auctune.spot.window.expectation import SCENARIO_LEVELS, Scenarios, make_scenario_tree
from auctune.spot.window.limits import (
    Limits,
    LimitsScratch,
    choose_constrained,
    make_limits_scratch,
)
from auctune.spot.window.table import split_of, units_done

_PERSISTENCE = 0.5


@dataclass(frozen=True, slots=True)
class Robust:
    """Renting on quantiles.

    Attributes:
        risk: the most that the probability of missing the deadline may be; 1: utility alone.
        cost_cap: the most that the job may cost by expectation, in units of the on-demand price;
            none: no cap.
        persistence: the probability that the next slot is at the same quantile as this one, and
            not at one drawn anew.
    """

    risk: float = 1.0
    cost_cap: float | None = None
    persistence: float = _PERSISTENCE

    def __post_init__(self) -> None:
        if not 0 < self.risk <= 1:
            raise InputError("risk", f"{self.risk!r}", "a probability > 0")
        if self.cost_cap is not None:
            check_positive(self.cost_cap, "cost_cap", "a number > 0")
        if not 0 <= self.persistence <= 1:
            raise InputError("persistence", f"{self.persistence!r}", "a probability")

    @property
    def name(self) -> str:
        cap = "" if self.cost_cap is None else f",cost_cap={self.cost_cap:g}"
        kept = self.persistence
        held = "" if kept == _PERSISTENCE else f",persistence={kept:g}"
        return f"robust(risk={self.risk:g}{cap}{held})"

    @property
    def horizon(self) -> None:
        return

    def start(self, job: SpotJob) -> "RobustRun":
        return RobustRun(self, job)


class RobustRun:
    """The robust policy at work."""

    def __init__(self, params: Robust, job: SpotJob) -> None:
        self._params = params
        self._job = job
        self._terms: JobConstants | None = None
        self._scratch: LimitsScratch | None = None

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        terms, scratch = self._prepared(observation.on_demand_price)
        params, num_ahead = self._params, terms.num_slots - observation.slot - 1
        forecast = check_forecast(observation.forecast, num_ahead) if num_ahead else None
        scenarios = make_scenarios(observation, forecast, num_ahead, params.persistence)
        cap = np.inf if params.cost_cap is None else params.cost_cap
        limits = Limits(float(params.risk), float(cap - observation.cost))
        progress, last = counted(terms, observation)
        done = int(units_done(terms, progress))
        state = int(choose_constrained(terms, scratch, scenarios, limits, done, last))
        on_demand, spot = split_of(terms, state, observation.price, observation.available)
        return SpotAllocation(int(on_demand), int(spot))

    def _prepared(self, on_demand_price: float) -> tuple[JobConstants, LimitsScratch]:
        if self._terms is None or self._scratch is None:
            self._terms = job_constants(self._job, on_demand_price)
            self._scratch = make_limits_scratch(self._terms, len(SCENARIO_LEVELS))
        return self._terms, self._scratch


def make_scenarios(
    observation: SpotObservation,
    forecast: Forecast | None,
    num_ahead: int,
    persistence: float,
) -> Scenarios:
    """Return the slot that is seen, and scenarios of those after it."""
    outlook = make_scenario_tree(
        forecast or point_forecast(np.empty(0), np.empty(0, dtype=np.int64))
    )
    num = outlook.price.shape[1]
    price = np.empty((1 + num_ahead, num))
    available = np.empty((1 + num_ahead, num), dtype=np.int64)
    price[0], available[0] = observation.price, observation.available
    price[1:], available[1:] = outlook.price[:num_ahead], outlook.available[:num_ahead]
    return Scenarios(price, available, np.full(num, 1.0 / num), float(persistence))
