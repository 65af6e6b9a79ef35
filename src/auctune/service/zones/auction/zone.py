"""A zone's decisions: bids, quotes, slots, cancellations; what the desk's thread runs.

Each method leaves the zone whole, and notes what happened for the log (`take_events`). Mechanism
and state are changed by the same functions as on replay.
"""

from collections.abc import Callable
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
from auctune.service.zones.auction import pauses, plans
from auctune.service.zones.auction.bid import Bid
from auctune.service.zones.auction.bid_task import bid_task
from auctune.service.zones.auction.decided import decided_body, line_record
from auctune.service.zones.auction.earliest import earliest_slot
from auctune.service.zones.auction.job_rows import ROWS
from auctune.service.zones.auction.market_events import market_kind, market_record
from auctune.service.zones.auction.open_job import OpenJob
from auctune.service.zones.auction.state import ZoneState
from auctune.service.zones.auction.supply import Supply
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.recorder import Recorder
from auctune.service.zones.slotted import SlottedZone

T = TypeVar("T")


class AuctionZone(SlottedZone[OpenJob, Bid]):
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
        state: ZoneState,
        clock: SlotClock,
        recorder: Recorder,
    ) -> None:
        super().__init__(name, clock, state, recorder)
        self.supply = supply
        self.mechanism = mechanism
        self.state: ZoneState = state

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

    def release_capacity(self, job: OpenJob) -> None:
        """Cells to come go back to the market."""
        plans.release(self, job)

    def decide(self, bid: Bid) -> JobRow:
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

    def preview(self, bid: Bid) -> JobRow:
        """What `decide` would answer; nothing happens but a lesson that is due."""
        self.begin_slots()
        self._advance(self.state.slot)
        task = self.task(bid)
        decision = self.mechanism.preview(task, self.state.slot)
        if task.budget is not None and decision.payment > task.budget:
            decision = _over_budget(task, decision.payment)
        body = self._body(bid, task, decision)
        return ROWS.preview(self.name, self.clock.now(), bid.job, body)

    def quote(self, bid: Bid) -> PriceMenu:
        """Prices by finish time; what it bids does not count."""
        self.begin_slots()
        # Else each quote would learn what is due by itself, in a copy, until somebody bids.
        self._advance(self.state.slot)
        return self.mechanism.quote(self.task(bid), self.state.slot)

    def accept(self, bid: Bid, line: MenuLine) -> JobRow | None:
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
        pauses.pause(self, job)

    def resume(self, job: str) -> bool:
        """Find a paused job new cells at no charge; whether there were any.

        Raises:
            InputError: if it is over, or not paused.
        """
        self.begin_slots()
        return pauses.resume(self, job)

    def lose_node(self, node: str, why: str) -> None:
        """A node runs nothing from the current slot on; what it was to run is planned anew."""
        self.begin_slots()
        plans.lose_node(self, node, why)

    def drain_node(self, node: str, why: str) -> None:
        """A node ends the current slot, and gets nothing more until it is returned."""
        self.begin_slots()
        plans.drain_node(self, node, why)

    def return_node(self, node: str) -> None:
        """A lost or drained node is for sale again."""
        self.begin_slots()
        plans.return_node(self, node)

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
            self.record(market_kind(event), None, market_record(event))
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
    ) -> JobRow:
        body = self._body(bid, task, decision) | {"line": line_record(line)}
        self.record(Kind.DECIDED, bid.job, body)
        return self._latest_row()

    def _body(self, bid: Bid, task: Task, decision: Decision) -> dict[str, Any]:
        slot, last = self.state.slot, self._last_slot()
        earliest = earliest_slot(self.mechanism, task, decision, slot, last)
        return decided_body(bid, task, decision, earliest)

    def _within_budget(self, task: Task) -> Decision | None:
        """The rejection of a bid whose price is over its owner's budget; none: it is not."""
        if task.budget is None:
            return None
        shown = self.mechanism.preview(task, self.state.slot)
        if not shown.admitted or shown.payment <= task.budget:
            return None
        return self._rejected_over_budget(task, shown.payment)

    def _rejected_over_budget(self, task: Task, price: Money) -> Decision:
        decision = _over_budget(task, price)
        self.apply_to_mechanism(Offered(task, decision, self.state.slot))
        return decision


def _over_budget(task: Task, price: Money) -> Decision:
    return Decision(task.id, admitted=False, price=price, reason=Reason.OVER_BUDGET)
