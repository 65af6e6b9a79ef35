"""One job, one policy, one market: the reference for whatever is faster.

The policy is asked before each slot of 0..d-1 until the work is done; its answer is held against
(5b) to (5e), paid and worked off. What is left at d ends as `auctune.spot.value` says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from auctune.spot.account import HeldInstances, JobConstants, job_constants, remaining_work
from auctune.spot.forecasts.forecast import ForecastTable
from auctune.spot.job import SpotJob
from auctune.spot.market import SpotMarket
from auctune.spot.policy import Policy, SpotAllocation, SpotObservation, SpotOutcome, check
from auctune.spot.value import overtime_slots, value_at


@dataclass(frozen=True, slots=True)
class PastSlot:
    """A slot that is over, as it was and not as a simulation would have it.

    Attributes:
        observation: what the policy saw when it began.
        allocation: what was held.
        progress: work done by its end, in all.
        paid: for it.
        preempted: spot instances lost within it.
    """

    observation: SpotObservation
    allocation: SpotAllocation
    progress: float
    paid: float
    preempted: int = 0


def play(
    policy: Policy,
    job: SpotJob,
    market: SpotMarket,
    forecasts: ForecastTable | None = None,
    past: Sequence[PastSlot] = (),
) -> SpotOutcome:
    """Run a job by a policy.

    Args:
        policy: how to rent.
        job: what to run.
        market: slot 0 is the job's first; at least `job.deadline` slots.
        forecasts: made before each of the job's slots; none for policies without.
        past: the first slots, if they are over: the policy sees them again, whatever it answers.

    Raises:
        InputError: if the market is too short or the policy needs other forecasts.
        InfeasibleAllocationError: if the policy breaks a constraint.
    """
    market = market.between(0, job.deadline)
    account = _Account(job_constants(job, market.on_demand_price))
    run = policy.start(job)
    for over in past:
        run.allocate(over.observation)
        account.take_over(over)
    for slot in range(len(past), job.deadline):
        if account.done:
            break
        available = int(market.available[slot])
        observation = SpotObservation(
            slot=slot,
            price=float(market.price[slot]),
            available=available,
            available_before=int(market.available[max(slot - 1, 0)]),
            on_demand_price=market.on_demand_price,
            progress=account.progress,
            cost=account.cost,
            last=account.last,
            forecast=None if forecasts is None else forecasts.at(slot),
            owed=account.owed,
        )
        allocation = run.allocate(observation)
        check(allocation, job, available, slot)
        account.run_slot(slot, observation.price, allocation)
    return account.close()


def settle(job: SpotJob, market: SpotMarket, allocations: Sequence[SpotAllocation]) -> SpotOutcome:
    """Return what given allocations come to; slots after the last one are idle.

    Raises:
        InputError: if the market is shorter than the deadline.
        InfeasibleAllocationError: if an allocation breaks a constraint.
    """
    market = market.between(0, job.deadline)
    account = _Account(job_constants(job, market.on_demand_price))
    for slot, allocation in enumerate(allocations[: job.deadline]):
        if account.done:
            break
        check(allocation, job, int(market.available[slot]), slot)
        account.run_slot(slot, float(market.price[slot]), allocation)
    return account.close()


class _Account:
    """Progress and cost of a job while it runs."""

    def __init__(self, terms: JobConstants) -> None:
        self._terms = terms
        self._held = HeldInstances(terms)
        self._allocations: list[SpotAllocation] = []
        self._by_slot: list[float] = []
        self._finish = 0.0
        self.progress = 0.0
        self.cost = 0.0
        self.done = False

    @property
    def last(self) -> SpotAllocation:
        return self._held.last

    @property
    def owed(self) -> float:
        return self._held.owed

    def run_slot(self, slot: int, price: float, allocation: SpotAllocation) -> None:
        terms = self._terms
        slot_held = self._held.run_slot(allocation, terms.workload - self.progress)
        if allocation.total > 0:
            self.progress += slot_held.work
            self.cost += allocation.on_demand * terms.on_demand_price + allocation.spot * price
            if remaining_work(terms, self.progress) == 0.0:
                self.done = True
                self._finish = slot + slot_held.finish
        self._allocations.append(allocation)
        self._by_slot.append(self.progress)

    def take_over(self, past: PastSlot) -> None:
        self.progress = past.progress
        self.cost += past.paid
        self._held.run_slot(past.allocation)
        self._held.lose_spot(past.preempted)
        self._allocations.append(past.allocation)
        self._by_slot.append(self.progress)
        if remaining_work(self._terms, self.progress) == 0.0:
            self.done = True
            self._finish = float(len(self._allocations))

    def close(self) -> SpotOutcome:
        terms = self._terms
        # Of a job whose last slots are idle nothing is held at the deadline.
        on_demand = self.last.on_demand if len(self._allocations) == terms.num_slots else 0
        slots = overtime_slots(terms, self._held.starting, self.progress, on_demand)
        finish = self._finish if self.done else terms.num_slots + slots
        return SpotOutcome(
            allocations=tuple(self._allocations),
            progress=tuple(self._by_slot),
            slot_cost=self.cost,
            ending_cost=terms.on_demand_price * terms.n_max * slots,
            finish=finish,
            value=value_at(terms, finish),
        )
