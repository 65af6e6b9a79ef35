"""Renting on quantiles: a stochastic program over all slots to the deadline.

Beyond the paper. Each slot to come has as many scenarios as the forecast has quantile levels; a
slot is seen before it is decided, so that the plan knows it may still react (a window program with
recourse, `auctune.spot.window.expectation`). Prices and counts of a slot are taken as
uncorrelated, by pairing their quantiles in a fixed order that mixes high with low; a quantile holds
on from slot to slot with probability `persistence`, since what was scarcer than thought stays so.
The best plan maximizes the expected utility subject to

    P(work is left at d) <= risk,    E[cost, ending included] <= cost_cap - spent.

Both become prices, lambda for being late and nu on cost, by Lagrangian duality. The expected value
J falls convexly in each, and the slope from one multiplier x to the next y bounds the constraint's
left side from above: P(late at y) <= (J(x) - J(y)) / (y - x), and so for the cost. The first y of
a ladder whose bound is within the limit is taken, or the last: nu with lambda = 0, then lambda,
then nu again. Where no nu keeps the cap beside that lambda, lambda is 0: the cap comes first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.spot.allocation import SpotAllocation
from auctune.spot.arrays import Floats, Ints
from auctune.spot.forecasts.forecast import Forecast, check_forecast
from auctune.spot.job import SpotJob
from auctune.spot.observation import SpotObservation
from auctune.spot.terms import Terms, make_terms
from auctune.spot.value import ending_cost
from auctune.spot.window.expectation import (
    ExpectationScratch,
    Multipliers,
    Scenarios,
    choose_now,
    fill_expected,
    make_expectation_scratch,
)
from auctune.spot.window.table import cheapest_spot, units_done

# Shares of what is at stake: the job's value and the cost of running it all after the deadline.
LATE_LADDER = (0.0, 0.001, 0.1, 0.5, 2.0, 10.0)
DEAR_LADDER = (0.0, 0.001, 0.25, 1.0, 4.0, 20.0)


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
    persistence: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.risk <= 1:
            raise InputError("risk", f"{self.risk!r}", "a probability > 0")
        if self.cost_cap is not None:
            check_positive(self.cost_cap, "cost_cap", "a number > 0")
        if not 0 <= self.persistence <= 1:
            raise InputError("persistence", f"{self.persistence!r}", "a probability")

    @property
    def name(self) -> str:
        """With its parameters."""
        cap = "" if self.cost_cap is None else f",cost_cap={self.cost_cap:g}"
        return f"robust(risk={self.risk:g}{cap})"

    @property
    def horizon(self) -> None:
        """All slots up to the deadline."""
        return

    def start(self, job: SpotJob) -> "RobustRun":
        """A run for one job."""
        return RobustRun(self, job)


class RobustRun:
    """The robust policy at work."""

    def __init__(self, params: Robust, job: SpotJob) -> None:
        self._params = params
        self._job = job
        self._terms: Terms | None = None
        self._scratch: ExpectationScratch | None = None

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        """What the best plan within the limits holds now."""
        terms, scratch = self._prepared(observation.on_demand_price)
        num_ahead = terms.num_slots - observation.slot - 1
        forecast = check_forecast(observation.forecast, num_ahead) if num_ahead else None
        scenarios = make_scenarios(observation, forecast, num_ahead, self._params.persistence)
        state = _State(terms, scratch, scenarios, observation)
        count = state.best(self._multipliers(state, observation.cost))[0]
        price, available = observation.price, observation.available
        spot = int(cheapest_spot(count, price, available, terms.on_demand_price))
        return SpotAllocation(count - spot, spot)

    def _multipliers(self, state: "_State", spent: float) -> Multipliers:
        params = self._params
        left = None if params.cost_cap is None else params.cost_cap - spent
        alone = self._dear(state, 0.0, left)
        if alone is None:
            return Multipliers(0.0, DEAR_LADDER[-1])
        if params.risk == 1:
            return Multipliers(0.0, alone)
        stake = state.terms.value + ending_cost(state.terms, state.terms.workload)
        ladder = tuple(share * stake for share in LATE_LADDER)
        late = least_multiplier(lambda x: state.best(Multipliers(x, alone))[1], ladder, params.risk)
        late = ladder[-1] if late is None else late
        both = self._dear(state, late, left)
        return Multipliers(0.0, alone) if both is None else Multipliers(late, both)

    def _dear(self, state: "_State", late: float, left: float | None) -> float | None:
        """nu, given lambda; none where no step of the ladder is known to keep the cap."""
        if left is None:
            return 0.0
        return least_multiplier(lambda x: state.best(Multipliers(late, x))[1], DEAR_LADDER, left)

    def _prepared(self, on_demand_price: float) -> tuple[Terms, ExpectationScratch]:
        if self._terms is None or self._scratch is None:
            self._terms = make_terms(self._job, on_demand_price)
            self._scratch = make_expectation_scratch(self._terms, len(PAIRED))
        return self._terms, self._scratch


class _State:
    """The program from one slot on; answers for any multipliers."""

    def __init__(
        self,
        terms: Terms,
        scratch: ExpectationScratch,
        scenarios: Scenarios,
        observation: SpotObservation,
    ) -> None:
        self.terms = terms
        self._scratch = scratch
        self._scenarios = scenarios
        self._done = int(units_done(terms, observation.progress))
        self._last = observation.last.total
        self._known: dict[Multipliers, tuple[int, float]] = {}

    def best(self, prices: Multipliers) -> tuple[int, float]:
        """The best count now, and the expected value J."""
        if prices not in self._known:
            high = fill_expected(self.terms, self._scratch, self._scenarios, prices, self._done)
            count, value = choose_now(
                self.terms, self._scratch, self._scenarios, prices, self._done, high, self._last
            )
            self._known[prices] = int(count), float(value)
        return self._known[prices]


def least_multiplier(
    expected: Callable[[float], float], ladder: tuple[float, ...], limit: float
) -> float | None:
    """The first step of a ladder at which the constraint is known to hold, if there is one.

    Args:
        expected: J, convex and falling in the multiplier.
        ladder: rising from 0.
        limit: of the constraint's left side.
    """
    for lower, upper in pairwise(ladder):
        if (expected(lower) - expected(upper)) / (upper - lower) <= limit:
            return upper
    return None


# Quantiles that scenarios are made of, each as likely, and the price's one that goes with each
# of the count's: an order without correlation.
SCENARIO_LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
PAIRED = np.array([1, 4, 2, 0, 3])


def make_scenarios(
    observation: SpotObservation,
    forecast: Forecast | None,
    num_ahead: int,
    persistence: float,
) -> Scenarios:
    """The slot that is seen, and scenarios of those after it.

    A forecast without quantiles is one scenario.
    """
    if forecast is None or len(forecast.levels) == 0:
        price = np.empty((1 + num_ahead, 1))
        available = np.empty((1 + num_ahead, 1), dtype=np.int64)
        if forecast is not None:
            price[1:, 0] = forecast.price[:num_ahead]
            available[1:, 0] = forecast.available[:num_ahead]
    else:
        price = np.empty((1 + num_ahead, len(PAIRED)))
        available = np.empty((1 + num_ahead, len(PAIRED)), dtype=np.int64)
        for h in range(num_ahead):
            price[1 + h] = _at_levels(forecast.levels, forecast.price_quantiles[h])[PAIRED]
            counts = _at_levels(forecast.levels, forecast.available_quantiles[h])
            available[1 + h] = np.floor(counts + 0.5)
    price[0], available[0] = observation.price, observation.available
    weight = np.full(price.shape[1], 1.0 / price.shape[1])
    return Scenarios(price, available, weight, float(persistence))


def _at_levels(levels: Floats, quantiles: Floats | Ints) -> Floats:
    return np.asarray(np.interp(SCENARIO_LEVELS, levels, quantiles))
