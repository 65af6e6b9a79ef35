"""What came of a job."""

from dataclasses import dataclass

from auctune.spot.allocation import SpotAllocation


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
        """All that was paid."""
        return self.slot_cost + self.ending_cost

    @property
    def utility(self) -> float:
        """V(T) - C (eq. 5)."""
        return self.value - self.cost
