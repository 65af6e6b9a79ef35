"""Projection of timeshare jobs. Their rows have, besides the fields of all kinds:

| key | value |
| --- | --- |
| meter | cap and charges |
| target | target_loss, deadline_unit, best_loss, share, finish_unit, verdict, pool_seconds, curve |

The curve is [[batches, loss]]; a point of a long curve stands for several units.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from pydantic_core import to_jsonable_python

from auctune.service.storage.events import EventType, Record, ZoneEvent
from auctune.service.storage.read_model import JobReadModel, Status
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    EventMessage,
    MeteredProjection,
    Usage,
)
from auctune.service.zones.timeshare.events import TimeshareEventType
from auctune.service.zones.timeshare.job import CancelledJob, TimeshareJob

# The only reason for which a job is rejected.
_OVER_BUDGET = "the budget is used up"


def _target(body: Record, request: Record, clock: SlotClock) -> Record:
    found = body["target"]
    known = {} if found is None else found
    return {
        "target_loss": request["target_loss"],
        "best_loss": known.get("best_loss"),
        "share": known.get("share", 0.0),
        "finish": _time(known.get("finish_unit"), clock),
        "verdict": known.get("verdict"),
        "pool_seconds": known.get("pool_seconds", 0.0),
        "curve": known.get("curve", []),
    }


def _time(unit: float | None, clock: SlotClock) -> float | None:
    return None if unit is None else clock.epoch + unit * clock.slot_seconds


def _decided(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    if not decision["admitted"]:
        return f"Rejected ({decision['reason']}): {_OVER_BUDGET}"
    chance = decision["estimate"]["success_probability"]
    return (
        f"Admitted for at most {decision['max_cost']}, without a guarantee: "
        f"the estimated probability of meeting the target is {chance:.2f}"
    )


def _metered(body: Mapping[str, Any]) -> str:
    what = "" if body["batches"] else " to load the job or for an interrupted batch"
    if "charged_seconds" in body:
        what += f", {body['charged_seconds']:.1f} s of them charged"
    return f"{body['seconds']:.1f} s of the pool{what}, for {body['amount']}"


def _trained(body: Mapping[str, Any]) -> str:
    result = body["result"]
    loss = f"loss {result['losses'][-1][3]:.4g}" if result["losses"] else "no loss"
    return f"{result['steps']} batches trained, {loss}"


def _left(body: Mapping[str, Any]) -> str:
    ways = {
        "reached": "The target loss is reached",
        "missed": "The deadline has passed before the target loss was reached",
        "ended": "The cost has reached max_cost",
        "slow": "A batch took longer than a job may hold the pool",
    }
    return ways.get(body["how"], "It has left the pool") + "; its best adapter is being packed"


class TimeshareProjection(MeteredProjection[TimeshareJob]):
    """Projection of timeshare jobs."""

    messages: Mapping[str, EventMessage] = {
        **COMMON_MESSAGES,
        EventType.DECIDED: EventMessage(_decided),
        EventType.METERED: EventMessage(
            _metered, data_fields=("amount", "unit", "seconds", "share")
        ),
        EventType.TRAINED: EventMessage(_trained),
        TimeshareEventType.JOINED_POOL: EventMessage(lambda _: "It has joined the pool"),
        TimeshareEventType.LEFT_POOL: EventMessage(_left),
        TimeshareEventType.SETTLED: EventMessage(
            lambda _: "The pool has removed it; the amount on hold is released"
        ),
    }
    default_fields: ClassVar[Record] = {**MeteredProjection.default_fields, "target": None}

    def usage(self, body: Mapping[str, Any], clock: SlotClock) -> Usage:
        seconds = body["charged_seconds"] if "charged_seconds" in body else body["seconds"]
        return Usage(seconds, "Seconds", is_fixed_price=True)

    def job_fields(self, job: TimeshareJob) -> Record:
        return {
            "size": job.size.to_record(),
            "decision": job.decision,
            "meter": to_jsonable_python(job.meter),
            "target": {
                "target_loss": job.target_loss,
                "deadline_unit": job.deadline_unit,
                "best_loss": job.best,
                "share": job.share,
                "finish_unit": job.finish,
                "verdict": job.verdict,
                "pool_seconds": job.curve.seconds,
                "curve": [[batches, loss] for batches, loss, _ in job.curve.points],
            },
        }

    def decision_fields(self, body: Record) -> Record:
        return {"size": body["size"], "decision": body["decision"]}

    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        return _OVER_BUDGET

    def rejected_param(self, body: Mapping[str, Any]) -> str:
        return "market.max_cost"

    def cancelled(self, event: ZoneEvent, cancelled: CancelledJob) -> JobReadModel:
        """Return the row of a cancelled job after an event that changes its cost."""
        last = replace(event, type=EventType.CANCELLED, at=cancelled.at)
        return self.closed(last, cancelled.job, Status.CANCELLED, refunded=False)

    def market(self, row: JobReadModel, clock: SlotClock) -> Record:
        target = _target(row.body, row.body["request"], clock)
        return {**self.market_fields(row), "metered": self.metered_fields(row), "target": target}

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        """Return when the target will be reached if the share stays, or None if unknown."""
        target = row.body["target"]
        return None if target is None else _time(target["finish_unit"], clock)
