"""A rented zone at work: bids, slots, what jobs' processes tell; what the actor's thread runs."""

from dataclasses import asdict
from typing import Any

from auctune.domain import InputError
from auctune.service.jobs.idempotency import idempotency_record
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.core.zone import EventWriter, SlottedZone
from auctune.service.zones.spot.bid import SpotBid
from auctune.service.zones.spot.decision import decision_record, reserved_amount
from auctune.service.zones.spot.job import Pace, SpotJobState, learned_pace
from auctune.service.zones.spot.projection import PROJECTION
from auctune.service.zones.spot.state import SpotState
from auctune.service.zones.spot.supply import SpotSupply


class SpotZone(SlottedZone[SpotJobState, SpotBid]):
    """One zone, at its newest slot.

    Args:
        name: of the zone.
        rental: what it offers.
        state: as it stands.
        recorder: hands out numbers of events.
    """

    def __init__(
        self, name: str, rental: SpotSupply, state: SpotState, recorder: EventWriter
    ) -> None:
        super().__init__(name, rental.clock, state, recorder)
        self.rental = rental
        self.state: SpotState = state

    @property
    def has_room(self) -> bool:
        """Whether it could run one job more."""
        return len(self.state.jobs) < self.rental.max_jobs

    @property
    def pace(self) -> Pace:
        """By which its next job is planned."""
        return learned_pace(self.state.starts, self.state.speeds, self.rental.start_seconds)

    def begin_slot(self, slot: int) -> None:
        """Record it, with the market as it begins: what jobs hold is chosen by that."""
        price, available = self.rental.market.beginning(slot)
        body = {"slot": slot, "price": price, "available": available}
        self.record(EventType.SLOT_BEGAN, None, body)

    def decide(self, bid: SpotBid) -> JobReadModel:
        """Decide on a bid, at once and for good; the job as it stands then.

        Raises:
            InputError: if its deadline leaves no slot; nothing has happened then.
        """
        self.begin_slots()
        self.record(
            EventType.DECIDED, bid.job, self._body(bid) | {"reply": idempotency_record(bid.reply)}
        )
        return self._latest_row()

    def preview(self, bid: SpotBid) -> JobReadModel:
        """What `decide` would answer; nothing happens."""
        self.begin_slots()
        return PROJECTION.preview(self.name, self.clock.now(), bid.job, self._body(bid))

    def pause(self, job: str) -> None:
        """Hold no instances for a job, from now on until it is resumed.

        Raises:
            InputError: if it is over, trained, or paused already.
        """
        self.begin_slots()
        self.pausable_job(job)
        self.record(EventType.PAUSED, job, {})

    def resume(self, job: str) -> bool:
        """Rent again for a paused job: that is always possible.

        Raises:
            InputError: if it is over, or not paused.
        """
        self.begin_slots()
        self.resumable_job(job)
        self.record(EventType.RESUMED, job, {})
        return True

    def _body(self, bid: SpotBid) -> dict[str, Any]:
        rental, pace = self.rental, bid.estimated.pace
        ready_at = self.clock.now() + pace.start_seconds
        slots = rental.slot_range(bid.worth.deadline, self.state.slot, ready_at)
        if not slots:
            raise no_slot(self.clock, slots.start)
        left, worth = bid.left(), bid.worth
        return {
            "owner": bid.owner,
            "request": bid.request,
            "training": bid.training.to_record(),
            "size": bid.size.to_record(),
            "decision": decision_record(
                bid.estimate, bid.cap, left, len(self.state.jobs), rental.max_jobs
            ),
            "left": None if left is None else str(left),
            "jobs": rental.max_jobs,
            "estimated": asdict(bid.estimated),
            "held": str(reserved_amount(bid.cap, left)),
            "first": slots.start,
            "ready_at": ready_at,
            "terms": rental.terms(bid.training, bid.size, worth, slots, pace.speed).to_record(),
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


def no_slot(clock: SlotClock, first: int) -> InputError:
    """Of a deadline that is before the end of the first slot that a job could use."""
    end = to_rfc3339(clock.slot_end(first))
    expected = f"{end}, when the first slot ends that the job can use, or later"
    return InputError("market.deadline", "leaves no whole slot", expected)
