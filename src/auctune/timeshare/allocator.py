"""How the rest of auctune sees a way of sharing the pool."""

from collections.abc import Sequence
from typing import Protocol

from auctune.timeshare.observation import Observation
from auctune.timeshare.shares import Shares
from auctune.timeshare.thread import LearningThread


class AllocatorRun(Protocol):
    """An allocator at work on one bundle. It has no clock and does no I/O."""

    def allocate(self, observation: Observation) -> Shares:
        """The shares of the unit that begins; asked once a unit, in order."""
        ...


class Allocator(Protocol):
    """Parameters of a way of sharing: a frozen dataclass that starts a run for each bundle."""

    @property
    def name(self) -> str:
        """As tables name it, parameters included."""
        ...

    def start(self, threads: Sequence[LearningThread]) -> AllocatorRun:
        """A run for one bundle from unit 0.

        Raises:
            InputError: if there are no threads, or two of one id.
        """
        ...
