"""A timeshare zone's decisions; what the actor's thread runs.

Each method leaves the zone whole, and notes what happened for the log (`take_events`).
"""

from dataclasses import asdict
from typing import Any

from auctune.domain import InputError, Money
from auctune.service.jobs.idempotency import idempotency_record
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.core.zone import EventWriter, Zone
from auctune.service.zones.timeshare.bid import (
    TimeshareBid,
    decision_record,
    held_after_cancel,
)
from auctune.service.zones.timeshare.job import Phase, TimeshareEventType, TimeshareJob
from auctune.service.zones.timeshare.projection import PROJECTION
from auctune.service.zones.timeshare.state import TimeshareState


class TimeshareZone(Zone[TimeshareJob, TimeshareBid]):
    """One zone.

    Args:
        name: of the zone.
        state: as it stands.
        clock: its slots, which are the pool's units.
        recorder: hands out numbers of events.
        price: of a second of the pool.
    """

    def __init__(
        self,
        name: str,
        state: TimeshareState,
        clock: SlotClock,
        recorder: EventWriter,
        price: Money,
    ) -> None:
        super().__init__(name, clock, state, recorder)
        self.state = state
        self.price = price

    @property
    def event_slot(self) -> int:
        """That of the clock."""
        return self.clock.slot()

    def begin_slots(self) -> None:
        """Nothing hangs on them."""

    def decide(self, asked: TimeshareBid) -> JobReadModel:
        """Take a job, unless its owner may not pay anything; the job as it stands then."""
        self.record(EventType.DECIDED, asked.job, self._body(asked))
        return self._latest_row()

    def preview(self, asked: TimeshareBid) -> JobReadModel:
        """What `decide` would answer; nothing happens."""
        return PROJECTION.preview(self.name, self.clock.now(), asked.job, self._body(asked))

    def pause(self, job: str) -> None:
        """Have a job have no share until it is resumed; its deadline stays.

        Raises:
            InputError: if it is over, or paused already, or has left the pool.
        """
        found = self._open(job)
        if found.phase is Phase.PAUSED:
            raise InputError("id", f"{job} is paused already", "a job that is not paused")
        if found.phase not in (Phase.ADMITTED, Phase.LEARNING):
            raise InputError("id", f"{job} is {found.phase.value}", "a job that is to learn")
        self.record(EventType.PAUSED, job, {})

    def resume(self, job: str) -> bool:
        """Have a paused job go on.

        Raises:
            InputError: if it is over, or not paused.
        """
        if self._open(job).phase is not Phase.PAUSED:
            raise InputError("id", f"{job} is not paused", "a paused job")
        self.record(EventType.RESUMED, job, {})
        return True

    def cancel(self, job: str) -> bool:
        """End a job for its owner. What the pool trains of it until it drops it is still charged.

        Returns:
            Whether the job was open.
        """
        found = self.state.jobs.get(job)
        if found is None or found.left is not None:
            return super().cancel(job)
        held = held_after_cancel(self.price, self.clock.slot_seconds, found.meter.remaining)
        self.record(EventType.CANCELLED, job, {"held": str(held)})
        return True

    def settle_dropped(self, seq: int) -> None:
        """Settle the cancelled jobs that the pool has dropped.

        Args:
            seq: of the newest event that the pool's list of wanted jobs followed from.
        """
        for one in list(self.state.cancelled.values()):
            if one.seq <= seq:
                self.record(TimeshareEventType.SETTLED, one.job.id, {})

    def settle(self, owner: str) -> None:
        """Settle the cancelled jobs of an owner at what they were charged so far."""
        for one in list(self.state.cancelled.values()):
            if one.job.owner == owner:
                self.record(TimeshareEventType.SETTLED, one.job.id, {})

    def _open(self, job: str) -> TimeshareJob:
        found = self.state.jobs.get(job)
        if found is None:
            raise InputError("id", f"{job} is not running", "an admitted job that is not over")
        return found

    def _body(self, asked: TimeshareBid) -> dict[str, Any]:
        left = asked.left()
        return {
            "owner": asked.owner,
            "request": asked.request,
            "training": asked.training.to_record(),
            "size": asked.size.to_record(),
            "deadline_unit": asked.deadline_unit,
            "left": None if left is None else str(left),
            "estimated": asdict(asked.estimated),
            "decision": decision_record(asked.estimate, asked.cap, left, asked.target_loss),
            "reply": idempotency_record(asked.reply),
        }
