"""A rented zone's decisions: bids, slots, what jobs' processes tell; what the desk's thread runs.

A job is admitted if its cost is within the owner's cap, and budget, with a probability of 0.9. By
expectation one job in two would reach a cap just above it, and be paid for nothing; by the worst
case hardly any would be admitted; at 0.9 owners compare it with the other zones' prices as they
stand.
"""

from collections.abc import Mapping
from typing import Any

from auctune.domain import InputError, Money
from auctune.service.jobs.reply import Reply, reply_record
from auctune.service.jobs.time import to_rfc3339
from auctune.service.jobs.training import Training
from auctune.service.zones.change import Change
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.received import Received
from auctune.service.zones.recorder import Recorder
from auctune.service.zones.spot.bid import SpotBid
from auctune.service.zones.spot.job_rows import NO_CAPACITY, OVER_BUDGET, OVER_CAP, previewed_row
from auctune.service.zones.spot.rental import Rental
from auctune.service.zones.spot.rented_job import Phase, RentedJob
from auctune.service.zones.spot.state import SpotState


class SpotZone:
    """One zone, at its newest slot.

    Args:
        name: of the zone.
        rental: what it offers.
        state: as it stands.
        recorder: hands out numbers of events.
    """

    def __init__(self, name: str, rental: Rental, state: SpotState, recorder: Recorder) -> None:
        self.name = name
        self.rental = rental
        self.state = state
        self._recorder = recorder
        self._happened: list[tuple[ZoneEvent, Change]] = []

    @property
    def clock(self) -> SlotClock:
        """Its slots."""
        return self.rental.clock

    def take_events(self) -> list[tuple[ZoneEvent, Change]]:
        """What happened since the last call."""
        happened, self._happened = self._happened, []
        return happened

    def happen(self, kind: str, job: str | None, body: dict[str, Any]) -> None:
        """Note that something happened, now, and take it over into the state."""
        seq, slot = self._recorder.next_seq(), max(0, self.state.slot)
        event = ZoneEvent(seq, self.name, slot, self.clock.now(), kind, job, body)
        self._happened.append((event, self.state.apply(event)))

    @property
    def is_ahead(self) -> bool:
        """Nothing is known here before it is an event."""
        return False

    @property
    def waiting(self) -> Mapping[str, Received]:
        """Jobs that were received and not decided on, by id."""
        return self.state.received

    @property
    def under_way(self) -> Mapping[str, RentedJob]:
        """Admitted jobs that are not over, by id."""
        return self.state.jobs

    def needs(self, file: str) -> bool:
        """Whether a job that is not over needs a file."""
        asked = [one.training for one in self.state.received.values()]
        asked += [job.training for job in self.state.jobs.values()]
        return any(file in (one.data, one.validation) for one in asked)

    def begin_slots(self) -> range:
        """Begin the current slot, if it has not begun; the slots that passed by it, and itself."""
        before, now = self.state.slot, self.clock.slot()
        if now > before:
            price, available = self.rental.market.at(now)
            self.happen(
                Kind.SLOT_BEGAN, None, {"slot": now, "price": price, "available": available}
            )
        return range(before + 1, now + 1)

    def decide(self, bid: SpotBid) -> JobRow:
        """Decide on a bid, at once and for good; the job as it stands then.

        Raises:
            InputError: if its deadline leaves no slot; nothing has happened then.
        """
        self.begin_slots()
        self.happen(Kind.DECIDED, bid.job, self._body(bid) | {"reply": reply_record(bid.reply)})
        return self._last_row()

    def decide_received(self, bid: SpotBid) -> JobRow | None:
        """Decide on a job that was received; none if it was cancelled or decided on meanwhile.

        Raises:
            InputError: as `decide`.
        """
        return self.decide(bid) if bid.job in self.state.received else None

    def preview(self, bid: SpotBid) -> JobRow:
        """What `decide` would answer; nothing happens."""
        self.begin_slots()
        return previewed_row(self.name, self.clock.now(), bid.job, self._body(bid))

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
        self.happen(Kind.RECEIVED, job, {**body, "reply": reply_record(reply)})
        return self._last_row()

    def refuse(self, job: str, error: InputError) -> None:
        """A received job cannot be decided on: its data or its terms are wrong."""
        if job in self.state.received:
            self.fail(job, "invalid_request", str(error), error.place, refund=False)

    def fail(
        self, job: str, code: str, message: str, param: str | None, *, refund: bool = True
    ) -> None:
        """End a job that cannot be done."""
        body = {"code": code, "message": message, "param": param, "refund": refund}
        self.happen(Kind.FAILED, job, body)

    def cancel(self, job: str) -> bool:
        """End a job for its owner; what was used stays charged. Whether it was open."""
        self.begin_slots()
        if job not in self.state.received and job not in self.state.jobs:
            return False
        self.happen(Kind.CANCELLED, job, {})
        return True

    def pause(self, job: str) -> None:
        """Hold no instances for a job, from now on until it is resumed.

        Raises:
            InputError: if it is over, trained, or paused already.
        """
        self.begin_slots()
        found = self._open(job)
        if found.phase is Phase.PAUSED:
            raise InputError("id", f"{job} is paused already", "a job that is not paused")
        if found.phase is Phase.TRAINED:
            raise InputError("id", f"{job} is trained already", "a job that is to train")
        self.happen(Kind.PAUSED, job, {})

    def resume(self, job: str) -> bool:
        """Rent again for a paused job: that is always possible.

        Raises:
            InputError: if it is over, or not paused.
        """
        self.begin_slots()
        if self._open(job).phase is not Phase.PAUSED:
            raise InputError("id", f"{job} is not paused", "a paused job")
        self.happen(Kind.RESUMED, job, {})
        return True

    def _open(self, job: str) -> RentedJob:
        found = self.state.jobs.get(job)
        if found is None:
            raise InputError("id", f"{job} is not running", "a job that was admitted and goes on")
        return found

    def _last_row(self) -> JobRow:
        return self._happened[-1][1].rows[-1]

    def _body(self, bid: SpotBid) -> dict[str, Any]:
        rental, slot = self.rental, self.state.slot
        slots = rental.window(bid.worth.deadline, slot)
        if not slots:
            raise no_slot(self.clock, slot)
        reason, left = self._why_not(bid), bid.left()
        worth, need = bid.worth, bid.estimate.p90_cost
        decision = {
            "admitted": reason is None,
            "reason": reason,
            "max_cost": str(bid.cap),
            "least_max_cost": str(need) if reason == OVER_CAP else None,
            "estimate": bid.estimate.to_record(),
        }
        return {
            "owner": bid.owner,
            "request": bid.request,
            "training": bid.training.to_record(),
            "size": {"rows": bid.size.rows, "mean_tokens": bid.size.mean_tokens},
            "decision": decision,
            "held": str(bid.cap if left is None else min(bid.cap, left)),
            "first": slots.start,
            "terms": rental.terms(bid.training, bid.size, worth, slots).to_record(),
            "renting": {"policy": rental.renting.policy, "forecast": rental.renting.forecast},
            "unit_cost": rental.unit_cost,
            "unit_price": rental.unit_price,
            "worth": {
                "amount": None if worth.amount is None else str(worth.amount),
                "deadline": worth.deadline,
                "zero_at": worth.zero_at,
                "reached": None,
            },
        }

    def _why_not(self, bid: SpotBid) -> str | None:
        need, left = bid.estimate.p90_cost, bid.left()
        if len(self.state.jobs) >= self.rental.jobs:
            return NO_CAPACITY
        if need > bid.cap:
            return OVER_CAP
        if left is not None and need > left:
            return OVER_BUDGET
        return None


def worth_at(worth: Mapping[str, Any], time: float) -> Money | None:
    """What a job on record is worth if it is done at a moment; none: its owner did not say."""
    if worth["amount"] is None:
        return None
    amount, deadline, zero_at = Money(worth["amount"]), worth["deadline"], worth["zero_at"]
    if time <= deadline:
        return amount
    if time >= zero_at:
        return amount * 0
    share = (zero_at - time) / (zero_at - deadline)
    return (amount * Money(share)).quantize(amount)


def no_slot(clock: SlotClock, slot: int) -> InputError:
    """Of a deadline that is before the end of the next slot."""
    expected = f"{to_rfc3339(clock.ends(slot + 1))}, when the next slot ends, or later"
    return InputError("market.deadline", "leaves no whole slot", expected)
