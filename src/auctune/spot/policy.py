"""How the rest of auctune sees a way of renting."""

from typing import Protocol

from auctune.spot.allocation import SpotAllocation
from auctune.spot.job import SpotJob
from auctune.spot.observation import SpotObservation


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
        """Slots after the present one that it wants forecast; none: all up to the deadline."""
        ...

    def start(self, job: SpotJob) -> PolicyRun:
        """A run for one job from its slot 0."""
        ...
