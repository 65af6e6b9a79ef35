"""What all mechanisms share that charge the bid: they sell cells, and have no prices to show."""

from collections.abc import Sequence

import numpy as np

from auctune.auction.book import Book
from auctune.domain import Cluster, Event, MarketState, PriceMenu, Released, Task


class BidCharging:
    """The cells of a cluster, sold without prices.

    Args:
        cluster: the supply.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.book = Book(cluster, prune=False)

    def advance(self, now: int) -> None:
        """Nothing: there is nothing to learn."""

    def quote(self, task: Task, now: int) -> PriceMenu:
        """Empty: the bid is charged, so there is no price to show."""
        return PriceMenu(task.id, ())

    def release(self, task: Task, cells: Sequence[tuple[int, str]]) -> None:
        """Take cells that an admitted task no longer needs back into the market."""
        slots, nodes = self.book.indices(cells)
        self.book.give_back(slots, nodes, self.book.throughput(task), task.memory_gb)

    def state(self) -> MarketState:
        """What is sold; there are no prices."""
        nothing = np.zeros_like(self.book.usage.compute)
        return MarketState(nothing, nothing.copy(), *self.book.shares_used())

    def apply(self, event: Event) -> None:
        """Take over what happened, on replay, without deciding again."""
        if isinstance(event, Released):
            self.release(event.task, event.cells)
        elif event.decision.schedule is not None:
            slots, nodes = self.book.indices(event.decision.schedule.cells)
            throughput = self.book.throughput(event.task)
            self.book.take(slots, nodes, throughput, event.task.memory_gb)
