"""Renting on what is likely: a stochastic program over all slots to the deadline.

Beyond the paper. Each slot to come has some scenarios, and is seen before it is decided, so that
the plan knows it may still react (a window program with recourse,
`auctune.spot.window.expectation`). With a forecast that has a Markov chain of the market they are
its states, and the plan is exact for it; it is made again when the chain changes. Else they are
the quantiles of the forecast, and the plan is made again in each slot: price and count are taken
as uncorrelated, by pairing their quantiles in a fixed order that mixes high with low; a quantile
holds on from slot to slot with probability `persistence`, since what was scarcer than thought
stays so. The best plan maximizes the expected utility subject to

    P(work is left at d) <= risk,    E[cost, ending included] <= cost_cap - spent.

Both become prices in that program (`auctune.spot.window.limits`). With no risk
`auctune.spot.deadline.deadline_guard` holds beside them: what could make the job late, whatever
comes, is not done.
"""

from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.numerics.jit import kernel
from auctune.spot.account import JobConstants, job_constants, remaining_work, state_of
from auctune.spot.deadline import deadline_guard, fits_after, steady_work
from auctune.spot.forecasts.forecast import Forecast, MarketChain, check_forecast, same_chain
from auctune.spot.job import SpotJob
from auctune.spot.policies.baselines import progress_and_state
from auctune.spot.policy import SpotAllocation, SpotObservation
from auctune.spot.window.expectation import make_scenarios
from auctune.spot.window.limits import LimitedProgram, Limits
from auctune.spot.window.table import units_done

_PERSISTENCE = 0.5


@dataclass(frozen=True, slots=True)
class Robust:
    """Renting on what is likely.

    Attributes:
        risk: the most that the probability of missing the deadline may be, by the forecast; 0: the
            deadline is kept wherever N_max on-demand GPUs can, whatever comes; 1: utility alone.
        cost_cap: the most that the job may cost by expectation, in units of the on-demand price;
            none: no cap.
        persistence: the probability that the next slot is at the same quantile as this one, and
            not at one drawn anew.
    """

    risk: float = 0.0
    cost_cap: float | None = None
    persistence: float = _PERSISTENCE

    def __post_init__(self) -> None:
        if not 0 <= self.risk <= 1:
            raise InputError("risk", f"{self.risk!r}", "a probability")
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
        self._program: LimitedProgram | None = None
        self._chain: MarketChain | None = None
        self._solved_in = 0

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        terms, program = self._prepared(observation.on_demand_price)
        slot, available = observation.slot, observation.available
        num_ahead = terms.num_slots - slot - 1
        forecast = check_forecast(observation.forecast, num_ahead) if num_ahead else None
        progress, last = progress_and_state(terms, observation)
        done = int(units_done(terms, progress))
        present = self._plan(program, observation, forecast, num_ahead, done, last)
        on_demand, spot = program.choose(
            slot - self._solved_in, present, observation.price, available, done, last
        )
        if (
            program.keeps_deadline
            and not fits_after(terms, slot, progress, last, state_of(terms, on_demand, spot))
            and fits(terms, slot, progress, last)
        ):
            on_demand, spot = deadline_guard(terms, slot, progress, last, available)
        return SpotAllocation(int(on_demand), int(spot))

    def _prepared(self, on_demand_price: float) -> tuple[JobConstants, LimitedProgram]:
        if self._terms is None or self._program is None:
            self._terms = job_constants(self._job, on_demand_price)
            self._program = LimitedProgram(self._terms)
        return self._terms, self._program

    def _plan(
        self,
        program: LimitedProgram,
        observation: SpotObservation,
        forecast: Forecast | None,
        num_ahead: int,
        done: int,
        last: int,
    ) -> int:
        """Solve the program unless its solution stands; return the scenario of the slot."""
        params, slot = self._params, observation.slot
        chain = None if forecast is None else forecast.chain
        if (
            chain is not None
            and program.covers(slot - self._solved_in, done)
            and same_chain(chain, self._chain)
        ):
            return chain.present
        scenarios = make_scenarios(
            observation.price, observation.available, forecast, num_ahead, params.persistence
        )
        cap = np.inf if params.cost_cap is None else params.cost_cap
        limits = Limits(float(params.risk), float(cap - observation.cost))
        most_kept = 1 if chain is None else num_ahead + 1
        program.solve(scenarios, limits, done, last, most_kept)
        self._chain, self._solved_in = chain, slot
        return scenarios.present


@kernel
def fits(terms: JobConstants, slot: int, progress: float, last: int) -> bool:
    """Return whether N_max on-demand GPUs from this slot on meet the deadline."""
    most = state_of(terms, terms.n_max, 0)
    work = steady_work(terms, most, last, terms.num_slots - slot)
    return remaining_work(terms, progress + work) == 0.0
