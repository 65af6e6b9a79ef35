"""What all mechanisms share that charge the bid: they sell cells, and have no prices to show."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from auctune.auction.baselines.earliest import find_earliest
from auctune.auction.book import Book
from auctune.auction.copies import copy_of
from auctune.auction.explain import explain
from auctune.auction.plan import Plan, price_plan, read_plan
from auctune.auction.replan import plan_anew
from auctune.domain import (
    Cell,
    Cluster,
    Commitment,
    Decision,
    EnergyForecast,
    Event,
    Explanation,
    InputError,
    MarketState,
    MenuLine,
    NodeLost,
    NodeReturned,
    Offered,
    PricedPlan,
    PriceMenu,
    Quote,
    Released,
    Replanned,
    Saved,
    Schedule,
    SlotAdvanced,
    Task,
)


class BidCharging(ABC):
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
        self._now = -1

    def advance(self, now: int) -> tuple[Event, ...]:
        """Slot `now` begins; there is nothing to learn."""
        if now <= self._now:
            return ()
        began = self.entering(now)
        self._begin(began)
        return (began,)

    def entering(self, now: int) -> SlotAdvanced:
        """What the beginning of slot `now` would bring into the market."""
        return self.book.entering(now)

    @abstractmethod
    def offer(self, task: Task, now: int) -> Decision:
        """Decide on one bid, and book what was promised."""

    def preview(self, task: Task, now: int) -> Decision:
        """What `offer` would answer now: a copy is asked, so nothing changes."""
        return copy_of(self).offer(task, now)

    def quote(self, task: Task, now: int) -> PriceMenu:
        """Empty: the bid is charged, so there is no price to show."""
        return PriceMenu(task.id, ())

    def take(self, task: Task, line: MenuLine, now: int) -> Decision | None:
        """None: there is no menu."""
        return None

    def explain(self, task: Task, chosen: Decision | Schedule, now: int) -> Explanation:
        """What a plan costs the operator, and when others would finish; changes nothing."""
        begun = self if now <= self._now else copy_of(self)
        begun.advance(now)
        begun.book.check(task)
        return explain(begun, task, chosen, now)

    def find_plan(self, task: Task, now: int, *, with_room: bool = True) -> PricedPlan | None:
        """The plan that finishes first, of the vendors the first that allows it."""
        found = [self._find_with(task, quote, now) for quote in task.quotes or (None,)]
        plans = [plan for plan in found if plan is not None]
        return min(plans, key=lambda plan: plan.schedule.finish, default=None)

    def price_plan(self, task: Task, schedule: Schedule, now: int) -> PricedPlan | None:
        """What a plan costs the operator; none if the task could not run by it."""
        plan = read_plan(self.book, task, schedule, now)
        return None if plan is None else self._priced(task, plan)

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
                self._begin(self.entering(event.now))
                if event.decision.schedule is not None:
                    self.assign(event.task, event.decision.schedule.cells)
            case Released():
                self.release(event.task, event.cells)
            case SlotAdvanced():
                self._begin(event)
            case NodeLost():
                self._begin(self.entering(event.now))
                self.book.lose(event.node, event.now)
            case NodeReturned():
                self._begin(self.entering(event.now))
                self.book.restore(event.node, event.now)
            case Replanned():
                self.release(event.task, event.given_up)
                self.assign(event.task, event.found)

    def save(self) -> Saved:
        """All that it remembers."""
        return {**self._kind(), "now": self._now, "book": self.book.save()}

    def load(self, saved: Saved) -> None:
        """Take over what one that was built alike saved.

        Raises:
            InputError: if it was built otherwise.
        """
        kind = self._kind()
        if any(saved.get(name) != value for name, value in kind.items()):
            raise InputError("snapshot", "is of another mechanism", f"one of {kind}")
        self.book.load(saved["book"])
        self._now = saved["now"]

    def _kind(self) -> dict[str, str | bool]:
        return {"mechanism": type(self).__name__, "alone": self._alone}

    def _begin(self, event: SlotAdvanced) -> None:
        if event.now > self._now:
            self.book.advance(event)
            self._now = event.now

    def _find_with(self, task: Task, quote: Quote | None, now: int) -> PricedPlan | None:
        book = self.book
        first = book.row(max(now, task.arrival) + (0 if quote is None else quote.delay))
        found = find_earliest(book, book.usage, task, first, alone=self._alone)
        return None if found is None else self._priced(task, Plan(*found, quote))

    def _priced(self, task: Task, plan: Plan) -> PricedPlan:
        free = np.zeros_like(self.book.usage.compute)
        return price_plan(self.book, task, plan, free, free, at_dearest=False)
