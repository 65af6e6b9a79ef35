"""Commands of an auction zone: bids, quotes, slots, cancellations."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from auctune.domain import (
    Admission,
    Decision,
    Event,
    InputError,
    Money,
    Offered,
    PriceMenu,
    Reason,
    Task,
)
from auctune.domain.menu import MenuLine
from auctune.run.records import decision_record, schedule_record
from auctune.service.jobs.idempotency import idempotency_record
from auctune.service.zones.auction import replanning
from auctune.service.zones.auction.bid import Bid, bid_task
from auctune.service.zones.auction.job import AuctionJob, task_record
from auctune.service.zones.auction.mechanism_events import event_type_of, market_record
from auctune.service.zones.auction.projection import PROJECTION
from auctune.service.zones.auction.state import AuctionState
from auctune.service.zones.auction.supply import Supply
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType, ZoneEvent
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.core.zone import EventWriter, SlottedZone


def decision_body(bid: Bid, task: Task, decision: Decision, earliest: int | None) -> dict[str, Any]:
    """The body of a decision's event, but for the line of a menu that was taken.

    Args:
        bid, task: what was offered.
        decision: on it.
        earliest: slot, see `earliest_slot`.
    """
    is_over = decision.reason is Reason.OVER_BUDGET
    return {
        "owner": bid.owner,
        "request": bid.request,
        "training": bid.training.to_record(),
        "size": bid.size.to_record(),
        "task": task_record(task),
        "offers": {offer.vendor: offer.reference for offer in bid.offers if offer.reference},
        "decision": decision_record(decision),
        "reply": idempotency_record(bid.reply),
        "budget_left": str(task.budget) if is_over else None,
        "earliest": earliest,
    }


def line_record(line: MenuLine | None) -> dict[str, Any] | None:
    """The line of a menu that was accepted, if one was."""
    if line is None:
        return None
    return {"deadline": line.deadline, "schedule": schedule_record(line.schedule)}


# Earliest feasible slot of a task that misses its deadline.
#
# Found by bisection: what can be done by a deadline can be done by every later one.

_TOO_LATE = (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE)


def earliest_feasible_slot(
    mechanism: Admission, task: Task, decision: Decision, now: int, last: int
) -> int | None:
    """That slot; none if the task was not too late, or there is none.

    Args:
        mechanism: that decided; it is asked only.
        task: as it was offered.
        decision: on it.
        now: the current slot.
        last: the last slot of the horizon.
    """
    if decision.reason not in _TOO_LATE:
        return None

    def can_be_done(deadline: int) -> bool:
        return mechanism.preview(replace(task, deadline=deadline), now).reason not in _TOO_LATE

    low, high = task.deadline + 1, last
    if low > high or not can_be_done(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if can_be_done(middle):
            high = middle
        else:
            low = middle + 1
    return low


# The zone.
#
# Each method leaves the zone whole, and notes what happened for the log (`take_events`). Mechanism
# and state are changed by the same functions as on replay.

T = TypeVar("T")


class AuctionZone(SlottedZone[AuctionJob, Bid]):
    """One zone, at its newest slot.

    Args:
        name: of the zone.
        supply: what it offers.
        mechanism: as it stands.
        state: as it stands, of the same events.
        clock: its slots.
        recorder: hands out numbers of events.
    """

    def __init__(
        self,
        name: str,
        supply: Supply,
        mechanism: Admission,
        state: AuctionState,
        clock: SlotClock,
        recorder: EventWriter,
    ) -> None:
        super().__init__(name, clock, state, recorder)
        self.supply = supply
        self.mechanism = mechanism
        self.state: AuctionState = state

    def record(self, kind: str, job: str | None, body: dict[str, Any]) -> ZoneEvent:
        """Note that something happened; what the mechanism took over before is on record now."""
        event = super().record(kind, job, body)
        self._has_unrecorded_change = False
        return event

    def uses_file(self, file: str) -> bool:
        """Whether a job that is not over needs a file, be it one that a vendor made."""
        return super().uses_file(file) or any(
            file == job.repaired for job in self.state.jobs.values()
        )

    def apply_to_mechanism(self, event: Event) -> None:
        """Have the mechanism take something over; `happen` must follow."""
        self._has_unrecorded_change = True
        self.mechanism.apply(event)

    def begin_slot(self, slot: int) -> None:
        """Slots in which nobody was there to decide are gone over in one step."""
        self._advance(slot)

    def release_capacity(self, job: AuctionJob) -> None:
        """Cells to come go back to the market."""
        replanning.release(self, job)

    def decide(self, bid: Bid) -> JobReadModel:
        """Decide on a bid, at once and for good; the job as it stands then.

        Raises:
            InputError: if it is no bid that this zone can decide on; nothing has happened then.
        """
        self.begin_slots()
        self._advance(self.state.slot)
        task = self.task(bid)
        decision = self._within_budget(task)
        if decision is None:
            decision = self._atomic(lambda slot: self.mechanism.offer(task, slot))
        return self._decided(bid, task, decision)

    def preview(self, bid: Bid) -> JobReadModel:
        """What `decide` would answer; nothing happens but a lesson that is due."""
        self.begin_slots()
        self._advance(self.state.slot)
        task = self.task(bid)
        decision = self.mechanism.preview(task, self.state.slot)
        if task.budget is not None and decision.payment > task.budget:
            decision = over_budget(task, decision.payment)
        body = self._body(bid, task, decision)
        return PROJECTION.preview(self.name, self.clock.now(), bid.job, body)

    def quote(self, bid: Bid) -> PriceMenu:
        """Prices by finish time; what it bids does not count."""
        self.begin_slots()
        # Else each quote would learn what is due by itself, in a copy, until somebody bids.
        self._advance(self.state.slot)
        return self.mechanism.quote(self.task(bid), self.state.slot)

    def accept(self, bid: Bid, line: MenuLine) -> JobReadModel | None:
        """Run and charge a line of an earlier menu as shown; none if that is not possible now."""
        self.begin_slots()
        if line.schedule.start <= self.state.slot:
            return None
        self._advance(self.state.slot)
        task = self.task(bid)
        if task.budget is not None and line.price > task.budget:
            decision: Decision | None = self._rejected_over_budget(task, line.price)
        else:
            decision = self._atomic(lambda slot: self.mechanism.take(task, line, slot))
            if decision is None:
                self._has_unrecorded_change = False
        return None if decision is None else self._decided(bid, task, decision, line)

    def pause(self, job: str) -> None:
        """Give a job's cells to come back, until it is resumed.

        Raises:
            InputError: if it is over, or paused already.
        """
        self.begin_slots()
        replanning.pause(self, job)

    def resume(self, job: str) -> bool:
        """Find a paused job new cells at no charge; whether there were any.

        Raises:
            InputError: if it is over, or not paused.
        """
        self.begin_slots()
        return replanning.resume(self, job)

    def lose_node(self, node: str, why: str) -> None:
        """A node runs nothing from the current slot on; what it was to run is planned anew."""
        self.begin_slots()
        replanning.lose_node(self, node, why)

    def drain_node(self, node: str, why: str) -> None:
        """A node ends the current slot, and gets nothing more until it is returned."""
        self.begin_slots()
        replanning.drain_node(self, node, why)

    def return_node(self, node: str) -> None:
        """A lost or drained node is for sale again."""
        self.begin_slots()
        replanning.return_node(self, node)

    def task(self, bid: Bid) -> Task:
        """A bid as the mechanism sees it, from the next slot on.

        Raises:
            InputError: if its deadline leaves no slot, or no node can hold it.
        """
        return bid_task(bid, self.supply, self.clock, self.state.slot + 1, self._last_slot())

    def _last_slot(self) -> int:
        return self.state.slot + self.supply.cluster.slots - 1

    def _advance(self, slot: int) -> None:
        self._has_unrecorded_change = True
        for event in self.mechanism.advance(slot):
            self.record(event_type_of(event), None, market_record(event))
        self._has_unrecorded_change = False

    def _atomic(self, decide: Callable[[int], T]) -> T:
        """A decision that the mechanism books at once; a bid that it refuses changes nothing."""
        self._has_unrecorded_change = True
        try:
            return decide(self.state.slot)
        except InputError:
            self._has_unrecorded_change = False
            raise

    def _decided(
        self,
        bid: Bid,
        task: Task,
        decision: Decision,
        line: MenuLine | None = None,
    ) -> JobReadModel:
        body = self._body(bid, task, decision) | {"line": line_record(line)}
        self.record(EventType.DECIDED, bid.job, body)
        return self._latest_row()

    def _body(self, bid: Bid, task: Task, decision: Decision) -> dict[str, Any]:
        slot, last = self.state.slot, self._last_slot()
        earliest = earliest_feasible_slot(self.mechanism, task, decision, slot, last)
        return decision_body(bid, task, decision, earliest)

    def _within_budget(self, task: Task) -> Decision | None:
        """The rejection of a bid whose price is over its owner's budget; none: it is not."""
        if task.budget is None:
            return None
        shown = self.mechanism.preview(task, self.state.slot)
        if not shown.admitted or shown.payment <= task.budget:
            return None
        return self._rejected_over_budget(task, shown.payment)

    def _rejected_over_budget(self, task: Task, price: Money) -> Decision:
        decision = over_budget(task, price)
        self.apply_to_mechanism(Offered(task, decision, self.state.slot))
        return decision


def over_budget(task: Task, price: Money) -> Decision:
    """Return the rejection of a bid whose price is over its owner's budget."""
    return Decision(task.id, admitted=False, price=price, reason=Reason.OVER_BUDGET)
