"""Policies for tests."""

from dataclasses import dataclass

from auctune.spot import SpotAllocation, SpotJob, SpotObservation


@dataclass(frozen=True)
class Fixed:
    """Holds what it was told to."""

    allocations: tuple[SpotAllocation, ...]
    name: str = "fixed"
    horizon: int = 0

    def start(self, job: SpotJob) -> "Fixed":
        return self

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        return self.allocations[observation.slot]


def fixed(*counts: tuple[int, int]) -> Fixed:
    return Fixed(tuple(SpotAllocation(*pair) for pair in counts))
