"""Commands of an auction zone: bids, quotes, slots, cancellations."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

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
from auctune.run.records import schedule_record
from auctune.service.zones.auction import replanning
from auctune.service.zones.auction.events import AuctionDecided
from auctune.service.zones.auction.job import AuctionJob
from auctune.service.zones.auction.state import AuctionModel, mechanism_event_data
from auctune.service.zones.auction.supply import Bid, Supply
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventData, ZoneEvent
from auctune.service.zones.core.read_model import Effects, JobReadModel
from auctune.service.zones.core.zone import EventWriter, SlottedZone

_TOO_LATE = (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE)


def earliest_feasible_slot(
    mechanism: Admission, task: Task, decision: Decision, now: int, last: int
) -> int | None:
    """Return the earliest slot by whose end a task could finish that misses its deadline.

    Found by bisection: what can finish by a deadline can finish by every later one.

    Args:
        mechanism: that decided; it is not changed.
        task: as it was offered.
        decision: on it.
        now: the current slot.
        last: the last slot of the horizon.

    Returns:
        The slot, or None if the task does not miss its deadline, or there is no such slot.
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


T = TypeVar("T")


class AuctionZone(SlottedZone[AuctionJob, Bid]):
    """One zone, at its newest slot. Mechanism and state change by the same functions as in replays.

    Args:
        name: of the zone.
        supply: what it sells.
        model: state and mechanism.
        clock: of its slots.
        writer: numbers events.
    """

    def __init__(
        self,
        name: str,
        supply: Supply,
        model: AuctionModel,
        clock: SlotClock,
        writer: EventWriter,
    ) -> None:
        super().__init__(name, clock, model, writer)
        self.supply = supply
        self.mechanism = model.mechanism
        self.state = model.state

    def _apply(self, event: ZoneEvent, data: EventData) -> Effects:
        # The mechanism was changed just before; now that is recorded.
        effects = self.state.evolve(event, data)
        self._has_unrecorded_change = False
        return effects

    def uses_file(self, file: str) -> bool:
        return super().uses_file(file) or any(
            file == job.repaired for job in self.state.jobs.values()
        )

    def apply_to_mechanism(self, event: Event) -> None:
        """Apply an event to the mechanism; `record` must follow."""
        self._has_unrecorded_change = True
        self.mechanism.apply(event)

    def begin_slot(self, slot: int) -> None:
        self._advance(slot)

    def release_capacity(self, job: AuctionJob) -> None:
        replanning.release(self, job)

    def decide(self, bid: Bid) -> JobReadModel:
        self.begin_slots()
        self._advance(self.state.slot)
        task = self.task(bid)
        decision = self._within_budget(task)
        if decision is None:
            decision = self._book(lambda slot: self.mechanism.offer(task, slot))
        return self._decided(bid, self._decision_data(bid, task, decision))

    def _decide(self, bid: Bid) -> AuctionDecided:
        self._advance(self.state.slot)
        task = self.task(bid)
        decision = preview_decision(self.mechanism, task, self.state.slot)
        return self._decision_data(bid, task, decision)

    def quote(self, bid: Bid) -> PriceMenu:
        """Return prices by finish time, whatever the bid."""
        self.begin_slots()
        # Otherwise each quote would learn due prices by itself, in a copy, until the next bid.
        self._advance(self.state.slot)
        return self.mechanism.quote(self.task(bid), self.state.slot)

    def accept(self, bid: Bid, line: MenuLine) -> JobReadModel | None:
        """Admit a line of an earlier menu at its price; None if that is not possible now."""
        self.begin_slots()
        if line.schedule.start <= self.state.slot:
            return None
        self._advance(self.state.slot)
        task = self.task(bid)
        if task.budget is not None and line.price > task.budget:
            decision: Decision | None = self._reject(task, over_budget(task, line.price))
        else:
            decision = self._book(lambda slot: self.mechanism.take(task, line, slot))
            if decision is None:
                self._has_unrecorded_change = False
        if decision is None:
            return None
        return self._decided(bid, self._decision_data(bid, task, decision, line))

    def pause(self, job: str) -> None:
        self.begin_slots()
        replanning.pause(self, job)

    def resume(self, job: str) -> bool:
        self.begin_slots()
        return replanning.resume(self, job)

    def lose_node(self, node: str, why: str) -> None:
        """Take a failed node off the market and replan what it was to run from this slot on."""
        self.begin_slots()
        replanning.lose_node(self, node, why)

    def drain_node(self, node: str, why: str) -> None:
        """Take a node off the market after the current slot, until it is returned."""
        self.begin_slots()
        replanning.drain_node(self, node, why)

    def return_node(self, node: str) -> None:
        """Put a lost or drained node on the market again."""
        self.begin_slots()
        replanning.return_node(self, node)

    def task(self, bid: Bid) -> Task:
        """Return the task of a bid, from the next slot on.

        Raises:
            InputError: if its deadline leaves no slot, or no node can hold it.
        """
        return self.supply.task(bid, self.clock, self.state.slot + 1, self._last_slot())

    def _last_slot(self) -> int:
        return self.state.slot + self.supply.cluster.slots - 1

    def _advance(self, slot: int) -> None:
        self._has_unrecorded_change = True
        for event in self.mechanism.advance(slot):
            self.record(mechanism_event_data(event))
        self._has_unrecorded_change = False

    def _book(self, decide: Callable[[int], T]) -> T:
        """Run a decision that the mechanism books; an InputError has changed nothing."""
        self._has_unrecorded_change = True
        try:
            return decide(self.state.slot)
        except InputError:
            self._has_unrecorded_change = False
            raise

    def _decision_data(
        self, bid: Bid, task: Task, decision: Decision, line: MenuLine | None = None
    ) -> AuctionDecided:
        slot, last = self.state.slot, self._last_slot()
        return AuctionDecided(
            owner=bid.owner,
            request=bid.request,
            training=bid.training,
            idempotency_key=bid.idempotency_key,
            size=bid.size,
            task=task,
            offers={offer.vendor: offer.reference for offer in bid.offers if offer.reference},
            decision=decision,
            budget_remaining=task.budget if decision.reason is Reason.OVER_BUDGET else None,
            earliest=earliest_feasible_slot(self.mechanism, task, decision, slot, last),
            line=None
            if line is None
            else {"deadline": line.deadline, "schedule": schedule_record(line.schedule)},
        )

    def _within_budget(self, task: Task) -> Decision | None:
        """Return the rejection of a bid whose price is above the budget, or None."""
        if task.budget is None:
            return None
        decision = preview_decision(self.mechanism, task, self.state.slot)
        return self._reject(task, decision) if decision.reason is Reason.OVER_BUDGET else None

    def _reject(self, task: Task, decision: Decision) -> Decision:
        self.apply_to_mechanism(Offered(task, decision, self.state.slot))
        return decision


def preview_decision(mechanism: Admission, task: Task, slot: int) -> Decision:
    """Return the decision on a bid, by its owner's budget too; changes nothing."""
    decision = mechanism.preview(task, slot)
    if task.budget is not None and decision.payment > task.budget:
        return over_budget(task, decision.payment)
    return decision


def over_budget(task: Task, price: Money) -> Decision:
    """Return the rejection of a bid whose price is over its owner's budget."""
    return Decision(task.id, admitted=False, price=price, reason=Reason.OVER_BUDGET)
