"""What every mechanism that sells cells does alike: events, node changes, snapshots, explanations.

`CellMarket` is the base class of pdFTSP and of its baselines. A mechanism adds its decisions, and
overrides the hooks `_on_allocation`, `_on_slot`, `_apply_offer` where its prices must follow.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

from auctune.auction.horizon import Shift
from auctune.auction.ledger import CapacityLedger
from auctune.domain import (
    Cell,
    Commitment,
    Decision,
    Event,
    Explanation,
    InputError,
    NodeLost,
    NodeReturned,
    Offered,
    PricedPlan,
    Released,
    Replanned,
    Saved,
    Schedule,
    SlotAdvanced,
    Task,
)
from auctune.domain.snapshot import restore
from auctune.numerics.arrays import FIT, Ints


class CellMarket(ABC):
    """A mechanism over the cells of one cluster.

    Args:
        ledger: its cells.
    """

    by_slot = False

    def __init__(self, ledger: CapacityLedger) -> None:
        self.ledger = ledger
        # The latest slot that has begun.
        self._now = -1

    @abstractmethod
    def advance(self, now: int) -> tuple[Event, ...]:
        """Begin slot `now`, or go on with it; return the events that this brings."""

    @abstractmethod
    def offer(self, task: Task, now: int) -> Decision:
        """Decide on one bid, and allocate what was promised."""

    def offer_slot(self, tasks: Sequence[Task], now: int) -> list[Decision]:
        """Decide on all bids of one slot, one after the other.

        Raises:
            InputError: as `offer`, before any is decided on.
        """
        for task in tasks:
            self.ledger.check(task, now)
        return [self.offer(task, now) for task in tasks]

    @abstractmethod
    def find_plan(self, task: Task, now: int, *, with_room: bool = False) -> PricedPlan | None:
        """Return the best plan of a task, by the mechanism's rule or among cells with room."""

    @abstractmethod
    def price_plan(self, task: Task, schedule: Schedule, now: int) -> PricedPlan | None:
        """Return what a plan costs now, or None if the task could not run by it."""

    @abstractmethod
    def plan_rest(self, rest: Task, now: int) -> tuple[Cell, ...] | None:
        """Return the best cells with room for a task from slot `now` on, if there are any."""

    def explain(self, task: Task, chosen: Decision | Schedule, now: int) -> Explanation:
        """Return what a plan costs part by part, and what others would cost; change nothing.

        Raises:
            InputError: as `offer`, or if the plan is not one of the task's.
        """
        self.ledger.check(task, now)
        return _explain(self._at(now), task, chosen, now)

    def entering(self, now: int) -> SlotAdvanced:
        """Return what the beginning of slot `now` would bring into the market."""
        return self.ledger.entering(now)

    def release(self, task: Task, cells: Sequence[tuple[int, str]]) -> None:
        """Take cells that an admitted task no longer needs back into the market."""
        rows, nodes = self.ledger.indices(cells)
        self.ledger.release(rows, nodes, self.ledger.throughput(task), task.memory_gb)
        self._on_allocation(rows, nodes)

    def assign(self, task: Task, cells: Sequence[tuple[int, str]]) -> None:
        """Give cells to a task that has paid for others; only their use moves prices."""
        rows, nodes = self.ledger.indices(cells)
        self.ledger.allocate(rows, nodes, self.ledger.throughput(task), task.memory_gb)
        self._on_allocation(rows, nodes)

    def lose_node(self, node: str, now: int, running: Sequence[Commitment]) -> list[Replanned]:
        """Take a node off the market and replan what it was to run by `plan_rest`.

        The owners of the tasks pay nothing for their new plans.
        """
        self.apply(NodeLost(node, now))
        return _replan(self, node, now, running)

    def apply(self, event: Event) -> None:
        """Rebuild the state from an event, on replay, without deciding again."""
        match event:
            case Offered():
                # Nothing happens here where the log has the events of `advance`.
                self.advance(event.now)
                self._apply_offer(event)
            case Released():
                self.release(event.task, event.cells)
            case SlotAdvanced():
                self._begin(event)
            case NodeLost():
                self._begin(self.entering(event.now))
                self._on_allocation(*self.ledger.fail_node(event.node, event.now))
            case NodeReturned():
                self._begin(self.entering(event.now))
                self._on_allocation(*self.ledger.restore_node(event.node, event.now))
            case Replanned():
                self.release(event.task, event.given_up)
                self.assign(event.task, event.found)

    def save(self) -> Saved:
        """Return a snapshot of all state."""
        return {**self._identity(), "now": self._now, "ledger": self.ledger.save()}

    def load(self, saved: Saved) -> None:
        """Restore a snapshot of a mechanism with the same cluster and options.

        Raises:
            InputError: if it is of another one; nothing has changed then.
        """
        restore(saved, self._load, self.save)

    def _load(self, saved: Saved) -> None:
        identity = self._identity()
        if any(saved.get(name) != value for name, value in identity.items()):
            raise InputError("snapshot", "is of another mechanism", f"one of {identity}")
        self.ledger.load(saved["ledger"])
        self._now = saved["now"]

    @abstractmethod
    def _identity(self) -> dict[str, Any]:
        """Return the mechanism and its options, as a snapshot must name them to be loaded."""

    def _apply_offer(self, event: Offered) -> None:
        if event.decision.schedule is not None:
            self.assign(event.task, event.decision.schedule.cells)

    def _on_allocation(self, rows: Ints, nodes: Ints) -> None:  # noqa: B027  # a hook
        """React to a change of the use of these cells."""

    def _on_slot(self, shift: Shift | None) -> None:  # noqa: B027  # a hook
        """React to the beginning of slot `_now`, and to the window's move, if it moved."""

    def _begin(self, event: SlotAdvanced) -> None:
        if event.now > self._now:
            shift = self.ledger.advance(event)
            self._now = event.now
            self._on_slot(shift)

    def _is_current(self, now: int) -> bool:
        """Return whether `advance(now)` would change nothing."""
        return now <= self._now

    def _at(self, now: int) -> Self:
        """Return the market with slot `now` begun: a copy, if that is still to come."""
        if self._is_current(now):
            return self
        later = self._copy()
        later.advance(now)
        return later

    def _copy(self) -> Self:
        """Return a copy that goes on by itself; only what never changes is shared."""
        shared: tuple[Any, ...] = (self.ledger.cluster, self.ledger.energy)
        return copy.deepcopy(self, {id(part): part for part in shared})


def _replan(
    market: CellMarket, node: str, now: int, running: Sequence[Commitment]
) -> list[Replanned]:
    """Replan each task that the loss of `node` in slot `now` hits, or refund it.

    Tasks go one after the other, the earliest deadline first, so that those not dealt with yet
    keep their cells on other nodes.
    """
    hit = [
        commitment
        for commitment in running
        if any(cell.node == node and cell.slot >= now for cell in commitment.schedule.cells)
    ]
    return [
        _replan_task(market, now, commitment)
        for commitment in sorted(hit, key=lambda commitment: commitment.task.deadline)
    ]


def _replan_task(market: CellMarket, now: int, commitment: Commitment) -> Replanned:
    task = commitment.task
    given_up = tuple(cell for cell in commitment.schedule.cells if cell.slot >= now)
    market.release(task, given_up)
    found: tuple[Cell, ...] | None = ()
    if commitment.work_left > task.work * FIT:
        rest = replace(task, work=commitment.work_left, quotes=())
        found = market.plan_rest(rest, max(now, commitment.ready))
    if found:
        market.assign(task, found)
    return Replanned(task, now, given_up, found or (), refunded=found is None)


def _explain(
    market: CellMarket, task: Task, chosen_by: Decision | Schedule, now: int
) -> Explanation:
    """Explain a plan in slot `now`, which has begun.

    Some thirty searches: one for each vendor and node type, and a bisection each for the earliest
    finish and the next cheaper deadline.
    """
    schedule = chosen_by.schedule if isinstance(chosen_by, Decision) else chosen_by
    if schedule is None:
        chosen = market.find_plan(task, now)
    else:
        chosen = market.price_plan(task, schedule, now)
        if chosen is None:
            raise InputError("schedule", "the task could not run by it", "a plan for this task")
    return Explanation(
        task.id,
        chosen,
        _by_vendor(market, task, chosen, now),
        _by_node_type(market, task, now),
        _earlier(market, task, chosen, now),
        _later(market, task, chosen, now),
        _earliest(market, task, now),
    )


def _by_vendor(
    market: CellMarket, task: Task, chosen: PricedPlan | None, now: int
) -> dict[str, PricedPlan | None]:
    own = None if chosen is None else chosen.schedule.vendor
    return {
        quote.vendor: market.find_plan(replace(task, quotes=(quote,)), now)
        for quote in task.quotes
        if quote.vendor != own
    }


def _by_node_type(market: CellMarket, task: Task, now: int) -> dict[str, PricedPlan | None]:
    if len(task.throughput) == 1:
        return {}
    return {
        name: market.find_plan(replace(task, throughput={name: samples}), now)
        for name, samples in task.throughput.items()
    }


def _earlier(
    market: CellMarket, task: Task, chosen: PricedPlan | None, now: int
) -> PricedPlan | None:
    if chosen is None or chosen.schedule.finish <= max(now, task.arrival):
        return None
    return market.find_plan(replace(task, deadline=chosen.schedule.finish - 1), now)


def _later(
    market: CellMarket, task: Task, chosen: PricedPlan | None, now: int
) -> PricedPlan | None:
    price = None if chosen is None else chosen.price
    if price is None:
        return None

    def cheaper(deadline: int) -> PricedPlan | None:
        plan = market.find_plan(replace(task, deadline=deadline), now)
        return plan if plan is not None and plan.price is not None and plan.price < price else None

    return _first(cheaper, task.deadline + 1, market.ledger.horizon.last)


def _earliest(market: CellMarket, task: Task, now: int) -> PricedPlan | None:
    def fits(deadline: int) -> PricedPlan | None:
        return market.find_plan(replace(task, deadline=deadline), now, with_room=True)

    return _first(fits, max(now, task.arrival), market.ledger.horizon.last)


def _first(meets: Callable[[int], PricedPlan | None], low: int, high: int) -> PricedPlan | None:
    """Return the plan of the first deadline in low..high with one; every later one has one too."""
    plan = meets(high) if low <= high else None
    if plan is None:
        return None
    high = max(low, plan.schedule.finish)
    while low < high:
        middle = (low + high) // 2
        found = meets(middle)
        if found is None:
            low = middle + 1
        else:
            plan, high = found, max(low, found.schedule.finish)
    return plan
