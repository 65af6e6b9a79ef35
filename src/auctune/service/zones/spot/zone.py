"""Commands of a spot zone."""

from auctune.domain import InputError
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.metered import reserved_amount
from auctune.service.zones.core.zone import EventWriter, SlottedZone
from auctune.service.zones.spot.decision import SpotBid, decision_record
from auctune.service.zones.spot.events import SpotDecided, SpotSlotStarted
from auctune.service.zones.spot.job import Pace, SpotJobState, learned_pace
from auctune.service.zones.spot.state import SpotModel
from auctune.service.zones.spot.supply import SpotSupply


class SpotZone(SlottedZone[SpotJobState, SpotBid]):
    """One zone, at its newest slot."""

    def __init__(
        self, name: str, rental: SpotSupply, model: SpotModel, writer: EventWriter
    ) -> None:
        super().__init__(name, rental.clock, model, writer)
        self.rental = rental
        self.state = model.state

    @property
    def has_room(self) -> bool:
        """Return whether it can run one more job."""
        return len(self.state.jobs) < self.rental.max_jobs

    @property
    def pace(self) -> Pace:
        """Start time and speeds that its next job is planned with."""
        return learned_pace(self.state.starts, self.state.speeds, self.rental.start_seconds)

    def begin_slot(self, slot: int) -> None:
        # Instances are chosen by the market as the slot begins.
        price, available = self.rental.market.quote(slot)
        self.record(SpotSlotStarted(slot=slot, price=price, available=available))

    def _decide(self, bid: SpotBid) -> SpotDecided:
        rental, pace, worth = self.rental, bid.estimate_inputs.pace, bid.worth
        ready_at = self.clock.now() + pace.start_seconds
        slots = rental.slot_range(worth.deadline, self.state.slot, ready_at)
        if not slots:
            raise no_slot(self.clock, slots.start)
        left, num_open = bid.remaining_budget(), len(self.state.jobs)
        return SpotDecided(
            owner=bid.owner,
            request=bid.request,
            training=bid.training,
            idempotency_key=bid.idempotency_key,
            size=bid.size,
            decision=decision_record(bid.estimate, bid.cap, left, num_open, rental.max_jobs),
            budget_remaining=left,
            jobs=rental.max_jobs,
            estimate_inputs=bid.estimate_inputs,
            held=reserved_amount(bid.cap, left),
            first=slots.start,
            ready_at=ready_at,
            terms=rental.terms(bid.training, bid.size, worth, slots, pace.speed),
            renting={"policy": rental.renting.policy, "forecast": rental.renting.forecast},
            unit_cost=rental.unit_cost,
            unit_price=rental.unit_price,
            worth={
                "amount": None if worth.amount is None else str(worth.amount),
                "deadline": worth.deadline,
                "zero_at": worth.zero_at,
                "reached": None,
            },
        )


def no_slot(clock: SlotClock, first: int) -> InputError:
    """Return the error for a deadline before the end of the first slot that a job can use."""
    end = to_rfc3339(clock.slot_end(first))
    expected = f"{end}, when the first slot ends that the job can use, or later"
    return InputError("market.deadline", "leaves no whole slot", expected)
