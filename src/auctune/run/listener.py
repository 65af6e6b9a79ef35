"""What a market run tells while it goes on."""

from typing import Protocol

from auctune.domain import Decision
from auctune.run.market.demand import Bid
from auctune.run.state import TaskRecord


class Listener(Protocol):
    """Who is told of a run while it goes on."""

    def decided(self, slot: int, bid: Bid, decision: Decision) -> None:
        """A bid was answered."""
        ...

    def repaired(self, bid: Bid, vendor: str, rows_in: int, rows_out: int) -> None:
        """A vendor has done its work."""
        ...

    def training(self, slot: int, task: str, rows: int, total: int, loss: float | None) -> None:
        """A task has come so far."""
        ...

    def finished(self, slot: int, bid: Bid, record: TaskRecord) -> None:
        """A task's training has ended, one way or the other."""
        ...

    def noted(self, text: str) -> None:
        """An operator should know this."""
        ...
