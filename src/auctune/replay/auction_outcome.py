"""A recorded period once more: under the mechanism that decided it, or under another one.

Under the same one every decision, every lesson and every new plan must come out as recorded, to
the last bit. Under another one the bids, the owners' cancellations and the nodes' losses are those
of the record, and all else follows from its own decisions: a plan is trained as it was made, a
pause and its resumption count for nothing, and a budget that refused a bid refuses it again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from auctune.domain import (
    Admission,
    NodeLost,
    NodeReturned,
    Offered,
    PricesLearned,
    Reason,
    Released,
    SlotAdvanced,
)
from auctune.domain.recorded import (
    BidMade,
    Difference,
    Happened,
    PlanChanged,
    RecordedPeriod,
    Refunded,
    Why,
)
from auctune.sim.takings import Books, Takings


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


def replay_same(period: RecordedPeriod, mechanism: Admission) -> SameAgain:
    """Decide all of a period again.

    Args:
        period: as recorded, from where the mechanism stands.
        mechanism: a new one, built as the one that decided, or as it stood before the period.
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
        period: as recorded, from the market's beginning; what was sold before the period is taken
            over as it was, and what was bid is learned from.
        mechanism: a new one over the same cluster.
    """
    other = _Other(period, mechanism)
    for happened in period.happened:
        if _slot(happened) >= period.first_slot:
            other.go(happened)
        else:
            other.take_over(happened)
    return other.books.takings()


def recorded_takings(period: RecordedPeriod) -> Takings:
    """What a period did come to, by the same count.

    Args:
        period: as recorded, from the market's beginning.
    """
    books = Books(period.cluster, period.first_slot)
    for happened in period.happened:
        _put_down(books, happened, period.first_slot)
    return books.takings()


def _put_down(books: Books, happened: Happened, first_slot: int) -> None:
    """What happened, as the record says."""
    if isinstance(happened, SlotAdvanced):
        books.begin(happened)
    elif isinstance(happened, BidMade):
        books.admit(happened.task, happened.decision, is_counted=happened.now >= first_slot)
    elif isinstance(happened, PlanChanged):
        books.change(happened)
    elif isinstance(happened, Refunded):
        books.refund(happened.task)


def _slot(happened: Happened) -> int:
    return happened.now


class _Again:
    """The same mechanism goes through what happened."""

    def __init__(self, mechanism: Admission) -> None:
        self._mechanism = mechanism
        self._expected: list[SlotAdvanced | PricesLearned] = []
        self._found: list[Any] = []
        self.differences: list[Difference] = []
        self.num_decisions = self.num_lessons = self.num_plans = 0

    def go(self, happened: Happened, *, decide: bool) -> None:
        """One thing; before the period begins nothing is decided."""
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
            _tell(self._mechanism, happened)

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

    def __init__(self, period: RecordedPeriod, mechanism: Admission) -> None:
        self._first_slot = period.first_slot
        self._mechanism = mechanism
        self.books = Books(period.cluster, period.first_slot)

    def take_over(self, happened: Happened) -> None:
        """What was before the period: sold as it was, and learned from in its own way."""
        _put_down(self.books, happened, self._first_slot)
        if isinstance(happened, SlotAdvanced | BidMade):
            self._mechanism.advance(happened.now)
        if not isinstance(happened, SlotAdvanced | PricesLearned):
            _tell(self._mechanism, happened)

    def go(self, happened: Happened) -> None:
        """What comes from outside."""
        mechanism, books = self._mechanism, self.books
        if isinstance(happened, SlotAdvanced):
            books.begin(happened)
            mechanism.advance(happened.now)
        elif isinstance(happened, BidMade):
            mechanism.advance(happened.now)
            self._bid(happened)
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

    def _bid(self, bid: BidMade) -> None:
        if bid.decision.reason is Reason.OVER_BUDGET:
            decision = bid.decision
            self._mechanism.apply(Offered(bid.task, decision, bid.now))
        else:
            decision = self._mechanism.offer(bid.task, bid.now)
        self.books.admit(bid.task, decision, is_counted=True)


def _tell(mechanism: Admission, happened: Happened) -> None:
    """Have a mechanism take over what happened, without deciding."""
    if isinstance(happened, BidMade):
        mechanism.apply(Offered(happened.task, happened.decision, happened.now))
    elif isinstance(happened, PlanChanged):
        if happened.event is not None:
            mechanism.apply(happened.event)
    elif not isinstance(happened, Refunded):
        mechanism.apply(happened)


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
