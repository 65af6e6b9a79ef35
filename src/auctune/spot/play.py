"""One job, one policy, one market: the reference for whatever is faster.

The policy is asked before each slot of 0..d-1 until the work is done; its answer is held against
(5b) to (5e), paid and worked off. What is left at d ends as `auctune.spot.terms` says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.spot.forecasts.forecast import ForecastTable
from auctune.spot.job import SpotJob
from auctune.spot.market import SpotMarket
from auctune.spot.policy import IDLE, Policy, SpotAllocation, SpotObservation, SpotOutcome, check
from auctune.spot.terms import (
    UNCHANGED,
    JobConstants,
    change,
    end_slot,
    job_constants,
    owed_by_on_demand,
    remaining_work,
    start_instances,
    termination_cost,
    termination_slots,
    value_at,
    work_while_starting,
)


@dataclass(frozen=True, slots=True)
class PastSlot:
    """A slot that is over, as it was and not as a simulation would have it.

    Attributes:
        observation: what the policy saw when it began.
        allocation: what was held.
        progress: work done by its end, in all.
        paid: for it.
    """

    observation: SpotObservation
    allocation: SpotAllocation
    progress: float
    paid: float


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


class HeldInstances:
    """What a job holds from slot to slot, and what the changes cost.

    Attributes:
        last: held in the newest slot.
        owed: slots that its instances still need to start, all together.
    """

    def __init__(self, terms: JobConstants) -> None:
        self._terms = terms
        self._starting = np.zeros((2, terms.n_max))
        self.last = IDLE
        self.owed = 0.0

    def run_slot(self, allocation: SpotAllocation) -> tuple[float, float]:
        """Hold instances for a slot.

        Returns:
            Its work, and the share of that in what they would do without overhead.
        """
        terms, last, count = self._terms, self.last, allocation.total
        self.last = allocation
        if not terms.by_instance:
            row = change(count, last.total)
            return float(terms.work[row, count]), float(terms.share[row])
        held = (allocation.on_demand, allocation.spot)
        start_instances(terms, self._starting, (last.on_demand, last.spot), held)
        work = float(work_while_starting(terms, self._starting, held))
        self.owed = float(end_slot(self._starting, held))
        whole = float(terms.work[UNCHANGED, count])
        return work, work / whole if whole else 1.0

    def at_deadline(self) -> tuple[int, float]:
        """Return the on-demand GPUs that need no start after d, and work that they still owe."""
        if not self._terms.by_instance:
            return 0, 0.0
        on_demand = self.last.on_demand
        return on_demand, float(owed_by_on_demand(self._terms, self._starting, on_demand))


def owed_after(job: SpotJob, allocations: Sequence[SpotAllocation]) -> float:
    """Return the slots that instances held at the end of some slots still need to start."""
    held = HeldInstances(job_constants(job, 1.0))
    for allocation in allocations:
        held.run_slot(allocation)
    return held.owed


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
        terms, count = self._terms, allocation.total
        work, share = self._held.run_slot(allocation)
        if count > 0:
            rest = terms.workload - self.progress
            self.progress += work
            self.cost += allocation.on_demand * terms.on_demand_price + allocation.spot * price
            if remaining_work(terms, self.progress) == 0.0:
                self.done = True
                # The slot begins with its overhead; the work comes after it.
                used = 1.0 - share + rest / float(terms.work[UNCHANGED, count])
                self._finish = slot + min(used, 1.0)
        self._allocations.append(allocation)
        self._by_slot.append(self.progress)

    def take_over(self, past: PastSlot) -> None:
        self.progress = past.progress
        self.cost += past.paid
        self._held.run_slot(past.allocation)
        self._allocations.append(past.allocation)
        self._by_slot.append(self.progress)
        if remaining_work(self._terms, self.progress) == 0.0:
            self.done = True
            self._finish = float(len(self._allocations))

    def close(self) -> SpotOutcome:
        terms = self._terms
        rest, on_demand = remaining_work(terms, self.progress), 0
        if rest and len(self._allocations) == terms.num_slots:
            # The on-demand GPUs that are held go on, and those of them that start go on starting.
            on_demand, owed = self._held.at_deadline()
            rest += owed
        slots = termination_slots(terms, rest, on_demand)
        finish = self._finish if self.done else terms.num_slots + slots
        return SpotOutcome(
            allocations=tuple(self._allocations),
            progress=tuple(self._by_slot),
            slot_cost=self.cost,
            ending_cost=termination_cost(terms, rest, on_demand),
            finish=finish,
            value=value_at(terms, finish),
        )
