"""How many spot instances there are, as somebody counts them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from auctune.run.spot.trace import MarketTrace


class Availability(Protocol):
    """Of one provider."""

    def at(self, now: float, held: int) -> int:
        """Spot instances that can be held, the `held` ones included."""
        ...

    def least(self, since: float, now: float, held: int) -> int:
        """The fewest that there were since a moment: those above it are taken away."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """As many as a trace says."""

    trace: MarketTrace

    def at(self, now: float, held: int) -> int:
        """See `Availability`."""
        return self.trace.at(now)[1]

    def least(self, since: float, now: float, held: int) -> int:
        """See `Availability`."""
        return self.trace.least_available(since, now)


@dataclass(frozen=True, slots=True, eq=False)
class Free:
    """As many as there is room for; one that is held stays until it is lost with its machine.

    Attributes:
        more: tells how many more there is room for.
    """

    more: Callable[[], int]

    def at(self, now: float, held: int) -> int:
        """See `Availability`."""
        return held + self.more()

    def least(self, since: float, now: float, held: int) -> int:
        """See `Availability`."""
        return held
