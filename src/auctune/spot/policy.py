"""What a policy observes, what it allocates, and what comes of it."""

from dataclasses import dataclass
from typing import Protocol

from auctune.domain.errors import AuctuneError
from auctune.spot.forecasts.forecast import Forecast
from auctune.spot.job import SpotJob


class InfeasibleAllocationError(AuctuneError):
    """A policy holds what it may not hold: it breaks one of (5b) to (5e)."""


@dataclass(frozen=True, slots=True)
class SpotAllocation:
    """GPUs held for one slot.

    Attributes:
        on_demand: n_o.
        spot: n_s.
    """

    on_demand: int
    spot: int

    @property
    def total(self) -> int:
        return self.on_demand + self.spot


IDLE = SpotAllocation(0, 0)


def check(allocation: SpotAllocation, job: SpotJob, available: int, slot: int) -> None:
    """Hold an allocation against the constraints of Kong et al., (5b) to (5e).

    Args:
        allocation: what a policy wants to hold.
        job: whose bounds on the total count.
        available: spot GPUs that there are.
        slot: named in the error.

    Raises:
        InfeasibleAllocationError: naming the slot and the constraint.
    """
    on_demand, spot, total = allocation.on_demand, allocation.spot, allocation.total
    counts: list[object] = [on_demand, spot]
    problem = ""
    if not all(type(count) is int for count in counts):
        problem = "(5e): counts are whole numbers"
    elif on_demand < 0 or spot < 0:
        problem = "(5b): counts are not below zero"
    elif spot > available:
        problem = f"(5b): {available} spot GPUs are available"
    elif total != 0 and not job.n_min <= total <= job.n_max:
        problem = f"(5c, 5d): a total is 0 or within {job.n_min} and {job.n_max}"
    if problem:
        raise InfeasibleAllocationError(
            f"slot {slot}: {on_demand!r} on-demand and {spot!r} spot GPUs break {problem}"
        )


@dataclass(frozen=True, slots=True)
class SpotOutcome:
    """A job that has run to its end, in the market's units of money.

    Attributes:
        allocations: by slot, up to the slot in which the work was done, or to the deadline.
        progress: work done after each of those slots.
        slot_cost: of the slots (eq. 8).
        ending_cost: of the on-demand GPUs after the deadline; 0 if nothing was left.
        finish: T, slots from the job's start, the last one by the fraction that was needed.
        value: V(T).
    """

    allocations: tuple[SpotAllocation, ...]
    progress: tuple[float, ...]
    slot_cost: float
    ending_cost: float
    finish: float
    value: float

    @property
    def cost(self) -> float:
        return self.slot_cost + self.ending_cost

    @property
    def utility(self) -> float:
        return self.value - self.cost


@dataclass(frozen=True, slots=True)
class SpotObservation:
    """The market and the job at the beginning of a slot.

    Attributes:
        slot: t, slots since the job began.
        price: p_t, of a spot GPU in this slot.
        available: A_t, spot GPUs in this slot.
        available_before: A_{t-1}; A_t itself in slot 0.
        on_demand_price: p_o.
        progress: Z, work done so far.
        cost: spent so far.
        last: what was held in the slot before; nothing in slot 0.
        forecast: of the slots t + 1, t + 2, ...; None where nobody forecasts.
        owed: slots that the instances held before still need to start, all together; 0 unless a
            start may be longer than a slot.
    """

    slot: int
    price: float
    available: int
    available_before: int
    on_demand_price: float
    progress: float
    cost: float
    last: SpotAllocation
    forecast: Forecast | None
    owed: float = 0.0


class PolicyRun(Protocol):
    """A policy at work on one job. It has no clock and does no I/O."""

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        """What to hold in the observed slot; asked once a slot, in order, until the work is done.

        Raises:
            InputError: if it needs a forecast that the observation has not.
        """
        ...


class Policy(Protocol):
    """Parameters of a way of renting: a frozen dataclass that starts a run for each job."""

    @property
    def name(self) -> str:
        """As tables and pools name it, parameters included."""
        ...

    @property
    def horizon(self) -> int | None:
        """Slots after the present one that it wants forecast; None: all up to the deadline."""
        ...

    def start(self, job: SpotJob) -> PolicyRun:
        """Return a run for one job from its slot 0."""
        ...
