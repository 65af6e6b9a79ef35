"""Projection of spot jobs. Their rows have, besides the fields of all kinds:

| key | value |
| --- | --- |
| meter | cap and charges |
| first, deadline_slots | the first slot, and the number of slots up to the deadline |
| worth | amount, deadline, zero_at, and `reached`: the value when the job finished |
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic_core import to_jsonable_python

from auctune.domain import Reason
from auctune.service.storage.events import EventType, Record
from auctune.service.storage.read_model import JobReadModel
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    EventMessage,
    MeteredProjection,
    Usage,
)
from auctune.service.zones.spot.decision import OVER_CAP
from auctune.service.zones.spot.events import SpotEventType
from auctune.service.zones.spot.job import SpotJobState

_REASONS: dict[str, str] = {
    OVER_CAP: "the cost exceeds the cap with a probability of more than 0.1",
    Reason.OVER_BUDGET: "the cost exceeds the remaining budget with a probability of more than 0.1",
    Reason.NO_CAPACITY: "the zone runs its maximum number of jobs",
}
_PARAMS: dict[str, str | None] = {
    OVER_CAP: "market.max_cost",
    Reason.OVER_BUDGET: "market.max_cost",
    Reason.NO_CAPACITY: None,
}


def _rejection_reason(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    least = decision["min_max_cost"]
    return _REASONS[decision["reason"]] + ("" if least is None else f"; {least} would be enough")


def _decided(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    if not decision["admitted"]:
        return f"Rejected ({decision['reason']}): {_rejection_reason(body)}"
    found = decision["estimate"]
    return (
        f"Admitted: {found['expected_cost']} expected, {found['p90_cost']} at p90, "
        f"{body['held']} at most; risk of being late {found['risk']:.0%}"
    )


def _metered(body: Mapping[str, Any]) -> str:
    if body["missed"]:
        return f"Slot {body['at']} skipped: the job's process was not running yet; nothing charged"
    held = f"{body['on_demand']} on-demand and {body['spot']} spot instances"
    return f"Slot {body['at']}: {held}, {body['amount']}"


class SpotProjection(MeteredProjection[SpotJobState]):
    """Projection of spot jobs."""

    messages: Mapping[str, EventMessage] = {
        **COMMON_MESSAGES,
        EventType.DECIDED: EventMessage(_decided),
        EventType.METERED: EventMessage(
            _metered, data_fields=("amount", "at", "price", "on_demand", "spot", "missed")
        ),
        SpotEventType.TRAINING_COMPLETED: EventMessage(
            lambda _: "Training is complete; the adapter is being packed"
        ),
    }
    default_fields: ClassVar[Record] = {
        **MeteredProjection.default_fields,
        "first": None,
        "deadline_slots": None,
        "worth": None,
    }

    def usage(self, body: Mapping[str, Any], clock: SlotClock) -> Usage:
        num_instances = body["on_demand"] + body["spot"]
        return Usage(num_instances * body["share"] * clock.slot_seconds, "Instance-Seconds")

    def job_fields(self, job: SpotJobState) -> Record:
        return {
            "size": job.size.to_record(),
            "decision": job.decision,
            "first": job.first,
            "deadline_slots": job.terms.deadline,
            "worth": job.worth,
            "meter": to_jsonable_python(job.meter),
        }

    def decision_fields(self, body: Record) -> Record:
        return {
            "size": body["size"],
            "decision": body["decision"],
            "first": body["first"],
            "deadline_slots": body["terms"]["deadline"],
            "worth": body["worth"],
        }

    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        return _rejection_reason(body)

    def rejected_param(self, body: Mapping[str, Any]) -> str | None:
        return _PARAMS[body["decision"]["reason"]]

    def market(self, row: JobReadModel, clock: SlotClock) -> Record:
        metered, payment = self.metered_fields(row), None
        if metered is not None and row.body["finished_at"] is not None:
            payment = metered["cost"] if row.body["decision"]["admitted"] else None
        return {**self.market_fields(row), "payment": payment, "metered": metered}

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        """Return the finish that was estimated at admission."""
        decision = row.body["decision"]
        if decision is None or not decision["admitted"]:
            return None
        finish: float = decision["estimate"]["finish"]
        return finish
