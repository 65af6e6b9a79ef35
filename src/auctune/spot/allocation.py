"""What is held in one slot, and what may be held."""

from dataclasses import dataclass

from auctune.domain.errors import AuctuneError
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
        """n, of both kinds."""
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
