"""A zone's decisions: bids, quotes, slots, cancellations; what the desk's thread runs.

Each method leaves the zone whole, and notes what happened for the log (`take_events`). Mechanism
and state are changed by the same functions as on replay.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from auctune.domain import (
    Admission,
    Decision,
    Event,
    InputError,
    Offered,
    PriceMenu,
    Quote,
    Reason,
    Released,
    Replanned,
    Task,
)
from auctune.domain.menu import MenuLine
from auctune.run.records import decision_record, schedule_record
from auctune.service.jobs.time import to_rfc3339
from auctune.service.jobs.training import Training
from auctune.service.zone import plans
from auctune.service.zone.bid import Bid, Reply
from auctune.service.zone.clock import SlotClock
from auctune.service.zone.event import Kind, ZoneEvent
from auctune.service.zone.job_row import JobRow, previewed_row
from auctune.service.zone.market_events import market_kind, market_record
from auctune.service.zone.open_job import OpenJob, Phase
from auctune.service.zone.recorder import Recorder
from auctune.service.zone.records import task_record
from auctune.service.zone.state import Change, ZoneState
from auctune.service.zone.supply import Supply

T = TypeVar("T")

_TOO_LATE = (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE)


class Zone:
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
        self.name = name
        self.supply = supply
        self.mechanism = mechanism
        self.state = state
        self.clock = clock
        self._recorder = recorder
        self._happened: list[tuple[ZoneEvent, Change]] = []
        self._is_ahead = False

    def take_events(self) -> list[tuple[ZoneEvent, Change]]:
        """What happened since the last call."""
        happened, self._happened = self._happened, []
        return happened

    def happen(self, kind: Kind, job: str | None, body: dict[str, Any]) -> ZoneEvent:
        """Note that something happened, now, and take it over into the state."""
        seq, slot = self._recorder.next_seq(), max(0, self.state.slot)
        event = ZoneEvent(seq, self.name, slot, self.clock.now(), kind, job, body)
        self._happened.append((event, self.state.apply(event)))
        self._is_ahead = False
        return event

    @property
    def is_ahead(self) -> bool:
        """Whether the mechanism knows of something that is on no record: a command broke off."""
        return self._is_ahead

    def tell(self, event: Event) -> None:
        """Have the mechanism take something over; `happen` must follow."""
        self._is_ahead = True
        self.mechanism.apply(event)

    def begin_slots(self) -> range:
        """Begin the current slot, if it has not begun; the slots that passed by it, and itself.

        Slots in which nobody was there to decide are gone over in one step.
        """
        before, now = self.state.slot, self.clock.slot()
        if now > before:
            self._advance(now)
        return range(before + 1, now + 1)

    def decide(self, bid: Bid) -> JobRow:
        """Decide on a bid, at once and for good; the job as it stands then.

        Raises:
            InputError: if it is no bid that this zone can decide on; nothing has happened then.
        """
        self.begin_slots()
        self._advance(self.state.slot)
        task = self.task(bid)
        decision = self._within_budget(task, bid)
        if decision is None:
            decision = self._changing(lambda slot: self.mechanism.offer(task, slot))
        return self._decided(bid, task, decision)

    def decide_received(self, bid: Bid) -> JobRow | None:
        """Decide on a job that was received; none if it was cancelled or decided on meanwhile.

        Raises:
            InputError: as `decide`.
        """
        return self.decide(bid) if bid.job in self.state.received else None

    def preview(self, bid: Bid) -> JobRow:
        """What `decide` would answer; nothing happens."""
        self.begin_slots()
        task = self.task(bid)
        decision = self.mechanism.preview(task, self.state.slot)
        left = bid.left()
        if left is not None and decision.payment > left:
            decision = _over_budget(decision)
        body = {
            **_decided_body(bid, task, decision),
            "earliest": self._earliest(task, decision),
        }
        return previewed_row(self.name, self.clock.now(), body)

    def quote(self, bid: Bid) -> PriceMenu:
        """Prices by finish time; what it bids does not count."""
        self.begin_slots()
        return self.mechanism.quote(self.task(bid), self.state.slot)

    def accept(self, bid: Bid, line: MenuLine) -> JobRow | None:
        """Run and charge a line of an earlier menu as shown; none if that is not possible now."""
        self.begin_slots()
        self._advance(self.state.slot)
        task = self.task(bid)
        if line.schedule.start <= self.state.slot:
            return None
        left = bid.left()
        if left is not None and line.price > left:
            decision: Decision | None = self._rejected_over_budget(task, line.price)
        else:
            decision = self._changing(lambda slot: self.mechanism.take(task, line, slot))
            if decision is None:
                self._is_ahead = False
        return None if decision is None else self._decided(bid, task, decision, line)

    def receive(
        self,
        job: str,
        owner: str,
        request: dict[str, Any],
        training: Training,
        reply: Reply | None,
    ) -> JobRow:
        """Note a job whose data are still being looked at."""
        self.begin_slots()
        body = {"owner": owner, "request": request, "training": training.to_record()}
        self.happen(Kind.RECEIVED, job, {**body, "reply": _reply(reply)})
        return self._last_row()

    def refuse(self, job: str, error: InputError) -> None:
        """A received job cannot be decided on: its data or its terms are wrong."""
        if job in self.state.received:
            self.fail(job, "invalid_request", str(error), error.place, refund=False)

    def cancel(self, job: str) -> bool:
        """End a job for its owner; cells to come go back to the market. Whether it was open."""
        self.begin_slots()
        if job in self.state.received:
            self.happen(Kind.CANCELLED, job, {})
            return True
        found = self.state.jobs.get(job)
        if found is None:
            return False
        plans.release(self, found)
        self.happen(Kind.CANCELLED, job, {})
        return True

    def pause(self, name: str) -> None:
        """Give a job's cells to come back, until it is resumed.

        Raises:
            InputError: if it is over, or paused already.
        """
        self.begin_slots()
        job = self._open(name)
        if job.phase is Phase.PAUSED:
            raise InputError("id", f"{name} is paused already", "a job that is not paused")
        if job.phase is Phase.TRAINED:
            raise InputError("id", f"{name} is trained already", "a job that is to train")
        left = job.cells_from(self.state.slot + 1)
        self.tell(Released(job.task, left))
        self.happen(Kind.PAUSED, name, plans.moved(left, ()))

    def resume(self, name: str) -> bool:
        """Find a paused job new cells at no charge; whether there were any.

        Raises:
            InputError: if it is over, or not paused.
        """
        self.begin_slots()
        job = self._open(name)
        if job.phase is not Phase.PAUSED:
            raise InputError("id", f"{name} is not paused", "a paused job")
        found, sought = plans.plan_rest(self, job)
        if found is None:
            return False
        self.tell(Replanned(job.task, self.state.slot + 1, (), found, refunded=False))
        self.happen(Kind.RESUMED, name, {**plans.moved((), found), "plan": sought})
        return True

    def fail(
        self, job: str, code: str, message: str, param: str | None, *, refund: bool = True
    ) -> None:
        """End a job that cannot be done."""
        self.happen(
            Kind.FAILED,
            job,
            {"code": code, "message": message, "param": param, "refund": refund},
        )

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
        first = self.state.slot + 1
        last = min(self.clock.last_by(bid.deadline), self._last_slot())
        if last < first:
            raise InputError(
                "market.deadline",
                "leaves no whole slot",
                f"{to_rfc3339(self.clock.ends(first))}, when the next slot ends, or later",
            )
        quotes = tuple(
            Quote(offer.vendor, offer.price, self.clock.slots(offer.seconds))
            for offer in bid.offers
        )
        return self.supply.task(
            bid.job,
            bid.training,
            bid.size,
            bid=bid.bid,
            arrival=first,
            deadline=last,
            quotes=quotes,
        )

    def _open(self, name: str) -> OpenJob:
        job = self.state.jobs.get(name)
        if job is None:
            raise InputError("id", f"{name} is not running", "a job that was admitted and goes on")
        return job

    def _last_slot(self) -> int:
        return self.state.slot + self.supply.cluster.slots - 1

    def _advance(self, slot: int) -> None:
        self._is_ahead = True
        for event in self.mechanism.advance(slot):
            self.happen(market_kind(event), None, market_record(event))
        self._is_ahead = False

    def _changing(self, decide: Callable[[int], T]) -> T:
        """A decision that the mechanism books at once; a bid that it refuses changes nothing."""
        self._is_ahead = True
        try:
            return decide(self.state.slot)
        except InputError:
            self._is_ahead = False
            raise

    def _last_row(self) -> JobRow:
        return self._happened[-1][1].rows[-1]

    def _decided(
        self, bid: Bid, task: Task, decision: Decision, line: MenuLine | None = None
    ) -> JobRow:
        body = _decided_body(bid, task, decision)
        body["earliest"] = self._earliest(task, decision)
        body["line"] = _line_record(line)
        self.happen(Kind.DECIDED, bid.job, body)
        return self._last_row()

    def _earliest(self, task: Task, decision: Decision) -> int | None:
        """The first slot by whose end a task could be done that was too late; none: none.

        A bisection: what can be done by a deadline can be done by every later one.
        """
        if decision.reason not in _TOO_LATE:
            return None
        low, high = task.deadline + 1, self._last_slot()
        if low > high or not self._can_be_done(task, high):
            return None
        while low < high:
            middle = (low + high) // 2
            if self._can_be_done(task, middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _can_be_done(self, task: Task, deadline: int) -> bool:
        shown = self.mechanism.preview(replace(task, deadline=deadline), self.state.slot)
        return shown.reason not in _TOO_LATE

    def _within_budget(self, task: Task, bid: Bid) -> Decision | None:
        """The rejection of a bid whose price is over its owner's budget; none: it is not."""
        left = bid.left()
        if left is None:
            return None
        shown = self.mechanism.preview(task, self.state.slot)
        if not shown.admitted or shown.payment <= left:
            return None
        return self._rejected_over_budget(task, shown.payment)

    def _rejected_over_budget(self, task: Task, price: Any) -> Decision:
        decision = Decision(task.id, admitted=False, price=price, reason=Reason.OVER_BUDGET)
        self.tell(Offered(task, decision, self.state.slot))
        return decision


def _decided_body(bid: Bid, task: Task, decision: Decision) -> dict[str, Any]:
    return {
        "owner": bid.owner,
        "request": bid.request,
        "training": bid.training.to_record(),
        "size": {"rows": bid.size.rows, "mean_tokens": bid.size.mean_tokens},
        "task": task_record(task),
        "decision": decision_record(decision),
        "reply": _reply(bid.reply),
    }


def _line_record(line: MenuLine | None) -> dict[str, Any] | None:
    if line is None:
        return None
    return {"deadline": line.deadline, "schedule": schedule_record(line.schedule)}


def _reply(reply: Reply | None) -> dict[str, str] | None:
    return (
        None if reply is None else {"key": reply.key, "token": reply.token, "digest": reply.digest}
    )


def _over_budget(decision: Decision) -> Decision:
    return Decision(
        decision.task, admitted=False, price=decision.payment, reason=Reason.OVER_BUDGET
    )
