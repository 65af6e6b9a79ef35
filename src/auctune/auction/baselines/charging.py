"""What all mechanisms share that charge the bid: they sell cells, and have no prices to show."""

from collections.abc import Sequence

import numpy as np

from auctune.auction.baselines.earliest import find_earliest
from auctune.auction.book import Book
from auctune.auction.replan import plan_anew
from auctune.domain import (
    Cell,
    Cluster,
    Commitment,
    EnergyForecast,
    Event,
    MarketState,
    NodeLost,
    NodeReturned,
    Offered,
    PriceMenu,
    Released,
    Replanned,
    SlotAdvanced,
    Task,
)


class BidCharging:
    """The cells of a cluster, sold without prices.

    Args:
        cluster: the supply.
        energy: what slots to come will cost, for a market without an end.
        alone: never two tasks on one node in one slot.
    """

    by_slot = False

    def __init__(
        self, cluster: Cluster, *, energy: EnergyForecast | None = None, alone: bool = False
    ) -> None:
        self.book = Book(cluster, prune=False, energy=energy)
        self._alone = alone

    def advance(self, now: int) -> None:
        """Slot `now` begins; there is nothing to learn."""
        self.book.advance(self.entering(now))

    def entering(self, now: int) -> SlotAdvanced:
        """What the beginning of slot `now` would bring into the market."""
        return self.book.entering(now)

    def quote(self, task: Task, now: int) -> PriceMenu:
        """Empty: the bid is charged, so there is no price to show."""
        return PriceMenu(task.id, ())

    def release(self, task: Task, cells: Sequence[tuple[int, str]]) -> None:
        """Take cells that an admitted task no longer needs back into the market."""
        slots, nodes = self.book.indices(cells)
        self.book.give_back(slots, nodes, self.book.throughput(task), task.memory_gb)

    def assign(self, task: Task, cells: Sequence[tuple[int, str]]) -> None:
        """Give cells to a task that has paid."""
        slots, nodes = self.book.indices(cells)
        self.book.take(slots, nodes, self.book.throughput(task), task.memory_gb)

    def lose_node(self, node: str, now: int, running: Sequence[Commitment]) -> list[Replanned]:
        """Take a node off the market, and plan anew what it was to run, as early as can be."""
        self.apply(NodeLost(node, now))
        return plan_anew(self, node, now, running)

    def plan_rest(self, rest: Task, now: int) -> tuple[Cell, ...] | None:
        """The cells with which a task finishes first from slot `now` on, if there are any."""
        book = self.book
        first = book.row(max(now, rest.arrival))
        found = find_earliest(book, book.usage, rest, first, alone=self._alone)
        return None if found is None else book.cells(*found)

    def state(self) -> MarketState:
        """What is sold; there are no prices."""
        compute, memory = self.book.shares_used()
        first = self.book.horizon.first
        return MarketState(np.zeros_like(compute), np.zeros_like(memory), compute, memory, first)

    def apply(self, event: Event) -> None:
        """Take over what happened, on replay, without deciding again."""
        match event:
            case Offered():
                self.advance(event.now)
                if event.decision.schedule is not None:
                    self.assign(event.task, event.decision.schedule.cells)
            case Released():
                self.release(event.task, event.cells)
            case SlotAdvanced():
                self.book.advance(event)
            case NodeLost():
                self.advance(event.now)
                self.book.lose(event.node, event.now)
            case NodeReturned():
                self.advance(event.now)
                self.book.restore(event.node, event.now)
            case Replanned():
                self.release(event.task, event.given_up)
                self.assign(event.task, event.found)
