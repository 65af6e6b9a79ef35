"""Commands of a timeshare zone."""

from collections.abc import Sequence
from typing import Any

from auctune.domain import Money
from auctune.engine.pool.events import ExitReason
from auctune.engine.unix_time import SlotClock
from auctune.files.device_profile import Profile
from auctune.service.jobs.training import step_seconds
from auctune.service.zones.core.events import EpochCheckpoint
from auctune.service.zones.core.job import SLOWER_THAN_SOLD
from auctune.service.zones.core.zone import EventWriter, Zone
from auctune.service.zones.timeshare.state import (
    JobSettled,
    TimeshareBid,
    TimeshareCancelled,
    TimeshareDecided,
    TimeshareFailed,
    TimeshareJob,
    TimeshareModel,
    decide,
    held_after_cancel,
)


class TimeshareZone(Zone[TimeshareJob, TimeshareBid]):
    """One zone."""

    def __init__(
        self,
        name: str,
        model: TimeshareModel,
        clock: SlotClock,
        writer: EventWriter,
        price: Money,
        profile: Profile | None = None,
    ) -> None:
        super().__init__(name, clock, model, writer)
        self.state = model.state
        self.price = price
        self.profile = profile

    def batch_seconds(self, job: TimeshareJob) -> float:
        """Return the seconds of a batch at the speed that is sold; 0 without a profile."""
        if self.profile is None:
            return 0.0
        return step_seconds(job.training, job.size, self.profile)

    @property
    def event_slot(self) -> int:
        return self.clock.slot()

    def begin_slots(self) -> None:
        # Nothing is recorded when a unit begins.
        pass

    def cancel(self, job: str) -> bool:
        # What the pool trains of the job until it drops it is still charged.
        found = self.state.jobs.get(job)
        if found is None or found.departure is not None:
            return super().cancel(job)
        held = held_after_cancel(self.price, self.clock.slot_seconds, found.meter.remaining)
        self.record(TimeshareCancelled(held=held), job)
        return True

    def finish(
        self, job: str, files: list[str], checkpoints: Sequence[EpochCheckpoint] = ()
    ) -> bool:
        """End a job that has left the pool; it fails unless it has reached its target."""
        found = self.state.jobs.get(job)
        if found is None:
            return False
        assert found.departure is not None
        if found.departure.reason == ExitReason.TARGET_REACHED and files:
            return super().finish(job, files, checkpoints)
        self.record(TimeshareFailed(**_failure(found), files=files), job)
        return True

    def settle_dropped(self, seq: int) -> None:
        """Settle jobs cancelled up to event `seq`, which the pool has dropped."""
        for one in list(self.state.cancelled.values()):
            if one.seq <= seq:
                self.record(JobSettled(), one.job.id)

    def settle(self, owner: str) -> None:
        for one in list(self.state.cancelled.values()):
            if one.job.owner == owner:
                self.record(JobSettled(), one.job.id)

    def _decide(self, bid: TimeshareBid) -> TimeshareDecided:
        left = bid.remaining_budget()
        return TimeshareDecided(
            owner=bid.owner,
            request=bid.request,
            training=bid.training,
            idempotency_key=bid.idempotency_key,
            size=bid.size,
            deadline_unit=bid.deadline_unit,
            budget_remaining=left,
            estimate_inputs=bid.estimate_inputs,
            decision=decide(bid.estimate, bid.cap, left, bid.target_loss),
        )


def _failure(job: TimeshareJob) -> dict[str, Any]:
    assert job.departure is not None
    how, param, refund = job.departure.reason, None, False
    best = "" if job.best is None else f"; its best loss was {job.best:.6g}"
    if how == ExitReason.DEADLINE_MISSED:
        code, param = "target_not_reached", "market.target_loss"
        message = f"target not reached by its deadline: {job.target_loss:g}{best}"
    elif how == ExitReason.TOO_SLOW:
        code, param = "step_too_long", "hyperparameters.batch_size"
        message = f"{job.departure.why}, longer than a job may hold the pool{best}"
    elif how == ExitReason.STOPPED:
        code, param = "cap_reached", "market.max_cost"
        message = f"its cost has reached max_cost before the target loss, {job.target_loss:g}{best}"
    else:
        # The service lost the result, so the owner is refunded.
        code, refund = "training_failed", True
        message = job.departure.why or "its adapter cannot be archived"
    # A job that has reached its cap has got all that it paid for: seconds at the speed sold.
    if not refund and job.was_slowed and how != ExitReason.STOPPED:
        message, refund = f"{message}: {SLOWER_THAN_SOLD}", True
    return {"code": code, "message": message, "param": param, "refund": refund}
