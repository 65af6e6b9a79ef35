"""The log of a timeshare zone once more: estimates by what it had seen, charges by seconds.

The shares themselves are the pool's, which knows more than its zone: what it measured.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.service.jobs.training import Training
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType, ZoneEvent
from auctune.service.zones.core.metered import Estimate, MeteredEventType
from auctune.service.zones.metered.again import Body
from auctune.service.zones.timeshare.bid import (
    charge_amount,
    held_after_cancel,
    rejection_reason,
    reserved_amount,
)
from auctune.service.zones.timeshare.forecast import (
    ForecastData,
    ForecastRequest,
    PoolPricing,
    forecast,
    forecast_data,
)
from auctune.service.zones.timeshare.job import Features, TimeshareEventType
from auctune.service.zones.timeshare.state import TimeshareState


class TimeshareAgain:
    """A `Judge` of a zone of this kind, at the zone's beginning.

    An estimate is made of what the zone knew a while before its decision: that is kept until then.

    Args:
        price: of a second of the pool.
        clock: of the zone.
        asked: events of decisions to come, whose estimates are to be made again.
    """

    def __init__(self, price: Money, clock: SlotClock, asked: Iterable[ZoneEvent]) -> None:
        self._price, self._clock = price, clock
        self._state = TimeshareState()
        # What is no decision of ours at all is found when its turn comes.
        known = (event for event in asked if "estimated" in event.body)
        self._to_come = Counter(map(_seen_by, known))
        self._kept: dict[int, ForecastData] = {}
        self._keep()

    def again(self, event: ZoneEvent) -> Body | None:
        """See `Judge`."""
        rule = _RULES.get(event.kind)
        if rule is not None:
            return rule(self, event)
        return event.body if event.job is None or self._is_open(event.job) else None

    def take(self, event: ZoneEvent) -> None:
        """See `Judge`."""
        self._state.apply(event)
        self._keep()

    def _is_open(self, job: str) -> bool:
        return job in self._state.jobs or job in self._state.received

    def _keep(self) -> None:
        if self._to_come[self._state.seq]:
            self._kept[self._state.seq] = forecast_data(self._state)

    def _received(self, event: ZoneEvent) -> Body | None:
        return None if self._is_open(str(event.job)) else event.body

    def _decided(self, event: ZoneEvent) -> Body | None:
        body, decision = event.body, event.body["decision"]
        if event.job in self._state.jobs:
            return None
        cap = Money(body["request"]["max_cost"])
        left = None if body["left"] is None else Money(body["left"])
        reason = rejection_reason(cap, left)
        estimate = self._estimate(event, cap)
        found = {
            **decision,
            "admitted": reason is None,
            "reason": reason,
            "max_cost": str(cap if reason else reserved_amount(cap, left)),
            "estimate": None if estimate is None else estimate.to_record(),
        }
        unit = self._clock.last_slot_by(body["request"]["deadline"]) + 1
        return {**body, "deadline_unit": unit, "decision": found}

    def _estimate(self, event: ZoneEvent, cap: Money) -> Estimate | None:
        """As it was made; none if the zone never knew what it says that it knew."""
        seq, body = _seen_by(event), event.body
        evidence = self._kept.get(seq)
        self._to_come[seq] -= 1
        if not self._to_come[seq]:
            self._kept.pop(seq, None)
        if evidence is None:
            return None
        training, size = Training.from_record(body["training"]), DataSize.from_record(body["size"])
        question = ForecastRequest(
            owner=body["owner"],
            features=Features.of(training, size),
            target_loss=body["decision"]["target_loss"],
            cap=cap,
            first_unit=body["estimated"]["first_unit"],
            deadline_unit=body["deadline_unit"],
        )
        terms = PoolPricing(self._price, self._clock.epoch, self._clock.slot_seconds)
        return forecast(question, terms, evidence)

    def _unit(self, event: ZoneEvent) -> Body | None:
        return event.body if event.body["number"] > self._state.journal_offset else None

    def _joined(self, event: ZoneEvent) -> Body | None:
        is_known = self._state.charged_job(str(event.job)) is not None
        return (
            event.body if is_known and event.body["number"] > self._state.journal_offset else None
        )

    def _cancelled(self, event: ZoneEvent) -> Body | None:
        job = self._state.jobs.get(str(event.job))
        if job is None or job.left is not None:
            return {} if self._is_open(str(event.job)) else None
        held = held_after_cancel(self._price, self._clock.slot_seconds, job.meter.remaining)
        return {"held": str(held)}

    def _settled(self, event: ZoneEvent) -> Body | None:
        return {} if event.job in self._state.cancelled else None

    def _metered(self, event: ZoneEvent) -> Body | None:
        body, job = event.body, self._state.charged_job(str(event.job))
        if job is None or job.meter.is_charged(body["slot"]):
            return None
        found: dict[str, Any] = {
            "slot": job.meter.next_slot,
            "amount": str(charge_amount(body["seconds"], self._price, job.meter.remaining)),
            "cost": "0",
        }
        if body["batches"]:
            if not self._state.units:
                return None
            unit = self._state.units[-1]
            found |= {"unit": unit["unit"], "share": unit["shares"].get(job.id, 0.0)}
        return {**body, **found}


def _seen_by(event: ZoneEvent) -> int:
    """Number of the newest event that the zone knew when it made the estimate of a decision."""
    return int(event.body["estimated"]["seq"])


_RULES: dict[str, Callable[[TimeshareAgain, ZoneEvent], Body | None]] = {
    EventType.RECEIVED: TimeshareAgain._received,
    EventType.DECIDED: TimeshareAgain._decided,
    TimeshareEventType.UNIT: TimeshareAgain._unit,
    MeteredEventType.METERED: TimeshareAgain._metered,
    TimeshareEventType.JOINED: TimeshareAgain._joined,
    EventType.CANCELLED: TimeshareAgain._cancelled,
    TimeshareEventType.SETTLED: TimeshareAgain._settled,
}
