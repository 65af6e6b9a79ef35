"""How simulator and comparisons see a mechanism of the edge: `Admission`, in edge terms."""

from collections.abc import Sequence
from typing import Protocol

from auctune.domain import Saved
from auctune.edge.decision import EdgeDecision, EdgeMenu
from auctune.edge.events import EdgeEvent
from auctune.edge.job import EdgeJob


class EdgeAdmission(Protocol):
    """A mechanism that answers each bid at once and for good.

    It owns its state, has no clock and does no I/O: `now`, the current slot, is passed in and
    never decreases.
    """

    def offer(self, job: EdgeJob, now: int) -> EdgeDecision:
        """Decide on one bid, and book what was promised."""
        ...

    def offer_slot(self, jobs: Sequence[EdgeJob], now: int) -> list[EdgeDecision]:
        """Decide on all bids of one slot, in their order."""
        ...

    def preview(self, job: EdgeJob, now: int) -> EdgeDecision:
        """What `offer` would answer now; changes nothing."""
        ...

    def quote(self, job: EdgeJob, now: int) -> EdgeMenu:
        """Prices by finish, whatever the job is worth; changes nothing."""
        ...

    def apply(self, event: EdgeEvent) -> None:
        """Take over what happened, on replay, without deciding again."""
        ...

    def save(self) -> Saved:
        """All that this mechanism remembers."""
        ...

    def load(self, saved: Saved) -> None:
        """Take over what another one saved that was built alike."""
        ...
