"""Jobs that were rented for, played again by another policy: the same jobs, the same market.

A job that was rented for by real processes did so much in a slot as they did; played, it does what
its terms say. At its cap it ends: the first slot that would cost more than is left is not paid, and
what was trained so far is worth nothing to its owner.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from auctune.sim.spot.foretelling import parse_foretelling
from auctune.sim.spot.trials import widest_horizon
from auctune.spot import Policy, SpotJob, SpotMarket, play
from auctune.spot.forecasts import ForecastTable, stack_forecasts
from auctune.spot.outcome import SpotOutcome
from auctune.spot.value import value_of_finish

# Costs are sums of many floats.
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Rented:
    """What renting for a job came to; times in its slots, money in units of the on-demand price.

    Attributes:
        cost: paid in all.
        finish: when its last row was trained; none: the cap ended it.
    """

    cost: float
    finish: float | None


@dataclass(frozen=True, slots=True, eq=False)
class PastRental:
    """A job that is over.

    Attributes:
        id: the job's.
        job: as policies see it.
        history: the market up to its first slot, without it.
        market: its own slots, as each was when it began.
        forecast: how it was looked ahead, NAME[:KEY=VALUE...].
        cap: the most that may be paid.
        unit_price: money of one unit.
        was: what came of it.
    """

    id: str
    job: SpotJob
    history: SpotMarket
    market: SpotMarket
    forecast: str
    cap: float
    unit_price: float
    was: Rented

    def value(self, rented: Rented) -> float:
        """What it is worth to its owner, in money."""
        if rented.finish is None:
            return 0.0
        return value_of_finish(self.job, rented.finish) * self.unit_price

    def is_late(self, rented: Rented) -> bool:
        """Whether it came after its deadline, or not at all."""
        return rented.finish is None or rented.finish > self.job.deadline + _SLACK

    def again(self, policy: Policy) -> Rented:
        """What would have come of it by another policy."""
        return capped(play(policy, self.job, self.market, self._forecasts(policy)), self)

    def _forecasts(self, policy: Policy) -> ForecastTable | None:
        horizon = widest_horizon([policy], self.job)
        if not horizon:
            return None
        forecaster = parse_foretelling(self.forecast, "forecast").forecaster(self.history, 0)
        seen = _joined(self.history, self.market)
        first = self.history.num_slots
        slots = range(first, first + self.job.deadline)
        return stack_forecasts([forecaster.forecast(seen.until(slot), horizon) for slot in slots])


@dataclass(frozen=True, slots=True)
class RentalTakings:
    """What some jobs came to together; money.

    Attributes:
        num_jobs: how many.
        num_late: done after their deadlines, or not at all.
        num_capped: ended by their caps.
        cost: to their owners.
        value: to their owners.
    """

    num_jobs: int
    num_late: int
    num_capped: int
    cost: float
    value: float

    @property
    def utility(self) -> float:
        """Value less cost."""
        return self.value - self.cost


def rental_takings(jobs: Iterable[tuple[PastRental, Rented]]) -> RentalTakings:
    """Of jobs, and what came of each."""
    all_of = list(jobs)
    return RentalTakings(
        num_jobs=len(all_of),
        num_late=sum(job.is_late(rented) for job, rented in all_of),
        num_capped=sum(rented.finish is None for _, rented in all_of),
        cost=sum(rented.cost * job.unit_price for job, rented in all_of),
        value=sum(job.value(rented) for job, rented in all_of),
    )


def capped(outcome: SpotOutcome, past: PastRental) -> Rented:
    """An outcome that ends where the next payment would be above the cap."""
    price, on_demand_price = past.market.price, past.market.on_demand_price
    paid = [
        held.on_demand * on_demand_price + held.spot * float(price[slot])
        for slot, held in enumerate(outcome.allocations)
    ]
    so_far = np.concatenate([[0.0], np.cumsum(paid)])
    for before, after in pairwise(so_far):
        if after > past.cap + _SLACK:
            return Rented(float(before), None)
    if outcome.cost > past.cap + _SLACK:
        # The ending is paid by the fraction, up to the cap.
        return Rented(past.cap, None)
    return Rented(outcome.cost, outcome.finish)


def _joined(history: SpotMarket, market: SpotMarket) -> SpotMarket:
    return SpotMarket(
        np.concatenate([history.price, market.price]),
        np.concatenate([history.available, market.available]),
        market.on_demand_price,
        market.slot_seconds,
    )
