"""Commands of a spot zone."""

from collections.abc import Sequence
from typing import TypeVar

from auctune.domain import InputError, round_money
from auctune.engine.spot.state import EventRecord, SpotRunState
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.jobs.training import ZoneBid
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import JobNoted
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.metered import SLOWER_THAN_SOLD, reserved_amount
from auctune.service.zones.core.zone import EventWriter, SlottedZone
from auctune.service.zones.spot.decision import (
    SpotBid,
    charge_amount,
    decision_record,
    value_at,
)
from auctune.service.zones.spot.events import (
    RunEventRecorded,
    SpotDecided,
    SpotMetered,
    SpotSlotStarted,
    SpotTrained,
    TrainingCompleted,
)
from auctune.service.zones.spot.job import Pace, SpotJobState, learned_pace
from auctune.service.zones.spot.state import SpotModel
from auctune.service.zones.spot.supply import SpotSupply

B = TypeVar("B", bound=ZoneBid)


class RentalZone(SlottedZone[SpotJobState, B]):
    """Zone whose jobs rent instances: their coordinators' events are recorded in it."""

    def record_run_event(self, job: SpotJobState, event: EventRecord) -> None:
        """Record an event of a job's run (`auctune.engine.spot.state`), and what it means."""
        self.record(RunEventRecorded(event=event), job.id)
        if event["type"] == "ended" and job.phase is not Phase.TRAINED:
            self._complete(job, event)

    def _complete(self, job: SpotJobState, event: EventRecord) -> None:
        if event["state"] != "done":
            # The training diverged: that is not the market's failure.
            self.fail(job.id, "training_diverged", event["note"], None, refund=False)
            return
        done = self.clock.slot_start(job.first) + event["finish"] * self.clock.slot_seconds
        completed = TrainingCompleted(
            state=event["state"],
            note=event["note"],
            finish=event["finish"],
            worth=value_at(job.worth, done),
        )
        self.record(completed, job.id)


class SpotZone(RentalZone[SpotBid]):
    """One zone, at its newest slot; its jobs are charged by the slot."""

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

    def record_run_event(
        self, job: SpotJobState, event: EventRecord, slot: int | None = None
    ) -> None:
        """Record an event of a job's run, and what it means for the job and its owner.

        `slot` is the job's slot, or the interval after its deadline, that it is about: by default
        that which is under way, or begins.
        """
        if slot is None:
            slot = job.meter.next_slot - (event["type"] == "slot_done")
        super().record_run_event(job, event)
        match event["type"]:
            case "slot" | "slot_skipped":
                self._charge_slot(job, event)
            case "overtime":
                self._charge_overtime(job, event, slot)
                self._record_training(job, event, slot)
            case "slot_done":
                self._record_training(job, event, slot)
            case "overtime_started":
                self.note(job.id, "past its deadline: the rest runs on demand")

    def import_run(self, job: SpotJobState, events: Sequence[EventRecord]) -> None:
        """Record the events of a run whose log was in its folder, up to version 12 of the log.

        The newest of them may not be charged yet.
        """
        run, slot = SpotRunState(), -1
        for event in events:
            run.apply(event)
            slot += event["type"] in ("slot", "slot_skipped", "overtime")
            if event["type"] == "slot_done":
                last = run.slots[-1]
                event = {"paid": last.paid, "preempted": last.preempted, **event}
            self.record_run_event(job, event, slot)

    def _charge_slot(self, job: SpotJobState, event: EventRecord) -> None:
        observation, is_missed = event["observation"], event["type"] == "slot_skipped"
        held = {"on_demand": 0, "spot": 0} if is_missed else event["allocation"]
        slot = observation["slot"]
        if job.meter.is_charged(slot):
            return
        if is_missed and not job.was_paused:
            self._note_slower(job)
        paid = event.get("paid", 0.0)
        metered = SpotMetered(
            slot=slot,
            amount=charge_amount(paid, job.unit_price, job.meter.remaining),
            cost=round_money(paid * job.unit_cost),
            at=job.first + slot,
            share=1.0,
            price=observation["price"],
            missed=is_missed,
            preempted=job.num_preempted(observation["last"]["spot"]),
            **held,
        )
        self.record(metered, job.id)

    def _charge_overtime(self, job: SpotJobState, event: EventRecord, number: int) -> None:
        if job.meter.is_charged(number):
            return
        share = event["time"] - event["since"]
        paid = job.terms.n_max * share
        amount = charge_amount(paid, job.unit_price, job.meter.remaining, is_free=job.was_slowed)
        metered = SpotMetered(
            slot=number,
            amount=amount,
            cost=round_money(paid * job.unit_cost),
            at=job.first + int(event["since"]),
            share=share,
            price=None,
            on_demand=job.terms.n_max,
            spot=0,
            missed=False,
        )
        self.record(metered, job.id)

    def _note_slower(self, job: SpotJobState) -> None:
        if not job.was_slowed:
            self.record(JobNoted(text=SLOWER_THAN_SOLD), job.id)

    def _record_training(self, job: SpotJobState, event: EventRecord, number: int) -> None:
        if number < job.next_trained:
            return
        # Logs of runs up to version 12 have less.
        rows, trained = event.get("rows", job.progress.rows), event.get("trained", {})
        refund = None
        if (
            event["type"] == "slot_done"
            and number == job.meter.next_slot - 1
            and job.is_slower_than_sold(rows, event["preempted"])
        ):
            refund = charge_amount(event["paid"], job.unit_price, job.meter.charged)
            self._note_slower(job)
        if rows == job.progress.rows and refund is None:
            return
        result = {
            "rows": rows,
            "total_rows": job.total_rows,
            "tokens": trained.get("tokens", job.progress.tokens),
            "steps": trained.get("steps", job.progress.steps),
            "losses": trained.get("losses", []),
            "validation": trained.get("validation", []),
            "state": "suspended",
            "note": "",
        }
        recorded = SpotTrained(
            node=self.name,
            slot=self.state.slot,
            seconds=self.clock.slot_seconds,
            number=number,
            result=result,
            refund=refund,
        )
        self.record(recorded, job.id)

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
