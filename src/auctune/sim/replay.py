"""A recorded period once more: under the mechanism that decided it, or under another one.

Under the same one every decision, every lesson and every new plan must come out as recorded, to
the last bit. Under another one the bids, the owners' cancellations and the nodes' losses are those
of the record, and all else follows from its own decisions: a plan is trained as it was made, a
pause and its resumption count for nothing, and a budget that refused a bid refuses it again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from auctune.domain import (
    Admission,
    Cell,
    Cluster,
    Commitment,
    Decision,
    NodeLost,
    NodeReturned,
    Offered,
    PricesLearned,
    Reason,
    Released,
    Schedule,
    SlotAdvanced,
    Task,
)
from auctune.domain.money import ZERO, Money
from auctune.domain.recorded import BidMade, Happened, PlanChanged, RecordedPeriod, Why
from auctune.sim.accounts import vendor_price


@dataclass(frozen=True, slots=True)
class Difference:
    """Something came out otherwise than recorded.

    Attributes:
        what: a decision, a lesson or a plan.
        name: of the task, or the slot.
        recorded, found: both.
    """

    what: str
    name: str
    recorded: Any
    found: Any


@dataclass(frozen=True, slots=True)
class SameAgain:
    """A replay under the mechanism that decided.

    Attributes:
        num_decisions, num_lessons, num_plans: compared.
        differences: none, if all is as it was.
    """

    num_decisions: int
    num_lessons: int
    num_plans: int
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Takings:
    """What a period came to; money.

    Attributes:
        num_bids, num_admitted, num_refunded: of its bids.
        welfare: bids less vendors' prices and operating costs, over those that were not refunded;
            what a refunded or cancelled task has cost counts.
        revenue: payments that were kept.
    """

    num_bids: int
    num_admitted: int
    num_refunded: int
    welfare: float
    revenue: Money


def replay_same(period: RecordedPeriod, mechanism: Admission) -> SameAgain:
    """Decide all of a period again.

    Args:
        period: as recorded.
        mechanism: a new one, built as the one that decided.
    """
    again = _Again(mechanism)
    for happened in period.happened:
        again.go(happened, decide=_slot(happened) >= period.first_slot)
    again.compare_lessons()
    return SameAgain(
        again.num_decisions, again.num_lessons, again.num_plans, tuple(again.differences)
    )


def replay_other(period: RecordedPeriod, mechanism: Admission) -> Takings:
    """What a period would have come to under another mechanism.

    Args:
        period: as recorded; what was sold before it is taken over as it was.
        mechanism: a new one over the same cluster.
    """
    other = _Other(period.cluster, mechanism)
    for happened in period.happened:
        if _slot(happened) >= period.first_slot:
            other.go(happened)
        else:
            other.take_over(happened)
    return other.books.takings()


def recorded_takings(period: RecordedPeriod, refunded: Iterable[str] = ()) -> Takings:
    """What a period did come to, by the same count.

    Args:
        period: as recorded.
        refunded: tasks that got their money back.
    """
    books = _Books(period.cluster)
    for happened in period.happened:
        if isinstance(happened, SlotAdvanced):
            books.energy(happened)
        elif isinstance(happened, BidMade):
            if happened.now >= period.first_slot:
                books.admit(happened.task, happened.decision)
        elif isinstance(happened, PlanChanged):
            books.change(happened)
    for name in refunded:
        books.refund(name)
    return books.takings()


def _slot(happened: Happened) -> int:
    return happened.now


class _Again:
    """The same mechanism goes through what happened."""

    def __init__(self, mechanism: Admission) -> None:
        self._mechanism = mechanism
        self._tasks: dict[str, Task] = {}
        self._expected: list[SlotAdvanced | PricesLearned] = []
        self._found: list[Any] = []
        self.differences: list[Difference] = []
        self.num_decisions = self.num_lessons = self.num_plans = 0

    def go(self, happened: Happened, *, decide: bool) -> None:
        """One thing; before the period begins nothing is decided."""
        if isinstance(happened, BidMade):
            self._tasks[happened.task.id] = happened.task
        if not decide:
            _tell(self._mechanism, happened)
        elif isinstance(happened, SlotAdvanced | PricesLearned):
            self._expected.append(happened)
            # A lesson of a slot's beginning comes with it; another comes before a bid, which may
            # have been refused without a record.
            if len(self._found) < len(self._expected):
                self._found += self._mechanism.advance(happened.now)
        elif isinstance(happened, BidMade):
            self._found += self._mechanism.advance(happened.now)
            self.compare_lessons()
            self._decide(happened)
        elif isinstance(happened, PlanChanged):
            self._change(happened)
        else:
            self._mechanism.apply(happened)

    def compare_lessons(self) -> None:
        """What was learned so far against what is on record."""
        expected, found = self._expected, self._found
        self._expected, self._found = [], []
        self.num_lessons += sum(isinstance(event, PricesLearned) for event in expected)
        if not _same_lessons(expected, found):
            slot = str(expected[0].now if expected else found[0].now)
            self.differences.append(Difference("lesson", slot, expected, found))

    def _decide(self, bid: BidMade) -> None:
        mechanism, found = self._mechanism, bid.decision
        if bid.line is not None:
            taken = mechanism.take(bid.task, bid.line, bid.now)
            self._compare("decision", bid.task.id, bid.decision, taken)
        elif found.reason is Reason.OVER_BUDGET:
            mechanism.apply(Offered(bid.task, found, bid.now))
        else:
            decision = mechanism.offer(bid.task, bid.now)
            self._compare("decision", bid.task.id, bid.decision, decision)
        self.num_decisions += 1

    def _change(self, change: PlanChanged) -> None:
        event, mechanism = change.event, self._mechanism
        if event is None:
            return
        given_up = event.cells if isinstance(event, Released) else event.given_up
        found = () if isinstance(event, Released) else event.found
        mechanism.apply(Released(event.task, given_up))
        if change.work is not None:
            rest = replace(event.task, work=change.work, quotes=())
            planned = mechanism.plan_rest(rest, change.first)
            self._compare("plan", change.task, found or None, planned)
            self.num_plans += 1
        if not isinstance(event, Released):
            mechanism.apply(replace(event, given_up=()))

    def _compare(self, what: str, name: str, recorded: Any, found: Any) -> None:
        if recorded != found:
            self.differences.append(Difference(what, name, recorded, found))


class _Other:
    """Another mechanism goes through what came from outside."""

    def __init__(self, cluster: Cluster, mechanism: Admission) -> None:
        self._mechanism = mechanism
        self.books = _Books(cluster)

    def take_over(self, happened: Happened) -> None:
        """What was before the period."""
        if isinstance(happened, SlotAdvanced):
            self.books.energy(happened)
        if not isinstance(happened, PricesLearned):
            _tell(self._mechanism, happened)

    def go(self, happened: Happened) -> None:
        """What comes from outside."""
        mechanism, books = self._mechanism, self.books
        if isinstance(happened, SlotAdvanced):
            books.energy(happened)
            mechanism.advance(happened.now)
        elif isinstance(happened, BidMade):
            mechanism.advance(happened.now)
            if happened.decision.reason is Reason.OVER_BUDGET:
                mechanism.apply(Offered(happened.task, happened.decision, happened.now))
                books.admit(happened.task, happened.decision)
            else:
                books.admit(happened.task, mechanism.offer(happened.task, happened.now))
        elif isinstance(happened, PlanChanged):
            if happened.why is Why.CANCELLED and happened.task in books.plans:
                task, cells = books.cancel(happened.task, happened.now)
                mechanism.release(task, cells)
        elif isinstance(happened, NodeLost):
            running = books.running(happened.now)
            for changed in mechanism.lose_node(happened.node, happened.now, running):
                books.replan(changed.task.id, changed.given_up, changed.found)
                if changed.refunded:
                    books.refund(changed.task.id)
        elif isinstance(happened, NodeReturned):
            mechanism.apply(happened)


class _Books:
    """Plans and money of a period."""

    def __init__(self, cluster: Cluster) -> None:
        self._types = {node.id: node.type for node in cluster.nodes}
        self._cluster = cluster
        self._energy: dict[str, dict[int, float]] = {
            name: dict(enumerate(kind.energy_cost)) for name, kind in cluster.node_types.items()
        }
        self.plans: dict[str, tuple[Task, Decision, tuple[Cell, ...]]] = {}
        self._refunded: set[str] = set()
        self._num_bids = 0

    def energy(self, event: SlotAdvanced) -> None:
        """Costs of slots that came into sight."""
        for name, costs in event.energy_cost.items():
            last = event.now + self._cluster.slots
            self._energy[name].update(zip(range(last - len(costs), last), costs, strict=True))

    def admit(self, task: Task, decision: Decision) -> None:
        """A decision."""
        self._num_bids += 1
        if decision.schedule is not None:
            self.plans[task.id] = (task, decision, decision.schedule.cells)

    def change(self, changed: PlanChanged) -> None:
        """A plan, as the record says."""
        event = changed.event
        if event is None or changed.task not in self.plans:
            return
        if isinstance(event, Released):
            self.replan(changed.task, event.cells, ())
        else:
            self.replan(changed.task, event.given_up, event.found)

    def replan(self, name: str, given_up: Iterable[Cell], found: tuple[Cell, ...]) -> None:
        """Cells go and come."""
        task, decision, cells = self.plans[name]
        gone = set(given_up)
        kept = tuple(cell for cell in cells if cell not in gone)
        self.plans[name] = (task, decision, tuple(sorted((*kept, *found))))

    def cancel(self, name: str, now: int) -> tuple[Task, tuple[Cell, ...]]:
        """An owner gives up what is to come."""
        task, _, cells = self.plans[name]
        left = tuple(cell for cell in cells if cell.slot > now)
        self.replan(name, left, ())
        return task, left

    def refund(self, name: str) -> None:
        """Its money goes back."""
        if name in self.plans:
            self._refunded.add(name)

    def running(self, now: int) -> list[Commitment]:
        """Plans that go on."""
        return [
            Commitment(
                task, Schedule(cells, decision.schedule.vendor), self._left(task, cells, now)
            )
            for name, (task, decision, cells) in self.plans.items()
            if name not in self._refunded
            and decision.schedule is not None
            and any(cell.slot >= now for cell in cells)
        ]

    def takings(self) -> Takings:
        """All of it."""
        welfare, revenue = 0.0, ZERO
        for name, (task, decision, cells) in self.plans.items():
            assert decision.schedule is not None
            welfare -= sum(self._cost(task, cell) for cell in cells)
            welfare -= float(vendor_price(task, decision.schedule))
            if name not in self._refunded:
                welfare += float(task.bid)
                revenue += decision.payment
        return Takings(self._num_bids, len(self.plans), len(self._refunded), welfare, revenue)

    def _left(self, task: Task, cells: Iterable[Cell], now: int) -> float:
        done = sum(task.throughput[self._types[c.node]] for c in cells if c.slot < now)
        return max(0.0, task.work - done)

    def _cost(self, task: Task, cell: Cell) -> float:
        kind = self._types[cell.node]
        share = task.throughput[kind] / self._cluster.node_types[kind].compute
        return share * self._energy[kind].get(cell.slot, 0.0)


def _tell(mechanism: Admission, happened: Happened) -> None:
    """Have a mechanism take over what happened, without deciding."""
    if isinstance(happened, BidMade):
        mechanism.apply(Offered(happened.task, happened.decision, happened.now))
    elif not isinstance(happened, PlanChanged):
        mechanism.apply(happened)
    elif happened.event is not None:
        mechanism.apply(happened.event)


def _same_lessons(expected: list[SlotAdvanced | PricesLearned], found: list[Any]) -> bool:
    return len(expected) == len(found) and all(
        _same_lesson(one, other) for one, other in zip(expected, found, strict=True)
    )


def _same_lesson(one: SlotAdvanced | PricesLearned, other: Any) -> bool:
    if isinstance(one, SlotAdvanced) or not isinstance(other, PricesLearned):
        return bool(one == other)
    same_names = one.lesson.keys() == other.lesson.keys()
    return one.now == other.now and same_names and _same_arrays(one.lesson, other.lesson)


def _same_arrays(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(np.array_equal(array, other[name], equal_nan=True) for name, array in one.items())
