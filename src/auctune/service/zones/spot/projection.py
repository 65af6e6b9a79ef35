"""Projection of spot jobs: fields of their rows, and messages to owners.

| key | holds |
| --- | --- |
| meter | what may be charged, and is |
| first, deadline_slots | its first slot, and how many there are up to its deadline |
| worth | amount, deadline, zero_at, and `reached`, what it was worth when it was done |
"""

from collections.abc import Mapping
from typing import Any

from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.metered import MeteredEventType
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    METERED_ROW,
    EventMessage,
    JobProjection,
    market_fields,
    metered_fields,
)
from auctune.service.zones.core.read_model import JobReadModel, Record
from auctune.service.zones.spot.decision import NO_CAPACITY, OVER_BUDGET, OVER_CAP
from auctune.service.zones.spot.job import SpotEventType, SpotJobState

_WHY = {
    OVER_CAP: "with a probability of more than 0.1 it costs more than the cap",
    OVER_BUDGET: "with a probability of more than 0.1 it costs more than is left of the budget",
    NO_CAPACITY: "the zone has as many jobs as it runs at once",
}

_PARAM = {OVER_CAP: "market.max_cost", OVER_BUDGET: "market.max_cost", NO_CAPACITY: None}


class SpotProjection(JobProjection[SpotJobState]):
    """Makes rows of rented jobs."""

    def default_fields(self) -> Record:
        """The keys of a rented job's row, with nothing in them."""
        return {**METERED_ROW, "first": None, "deadline_slots": None, "worth": None}

    def job_fields(self, job: SpotJobState) -> Record:
        """What it is to do by when, and what it costs."""
        return {
            "size": job.size.to_record(),
            "decision": job.decision,
            "first": job.first,
            "deadline_slots": job.terms.deadline,
            "worth": job.worth,
            "meter": job.meter.to_record(),
        }

    def decision_fields(self, body: Record) -> Record:
        """What was answered, and what it is to do by when."""
        return {
            "size": body["size"],
            "decision": body["decision"],
            "first": body["first"],
            "deadline_slots": body["terms"]["deadline"],
            "worth": body["worth"],
        }

    def has_started(self, job: SpotJobState) -> bool:
        """Whether a job has trained."""
        return bool(job.progress.rows)

    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        """The reason for people, and the cap that would do."""
        decision = body["decision"]
        least = decision["least_max_cost"]
        return _WHY[decision["reason"]] + ("" if least is None else f"; {least} would do")

    def rejected_param(self, body: Mapping[str, Any]) -> str | None:
        """The cap, unless there is no room."""
        return _PARAM[body["decision"]["reason"]]


PROJECTION = SpotProjection()


# Fields and messages.

Shown = dict[str, Any]


class SpotViews:
    """Of all rented zones."""

    @property
    def messages(self) -> Mapping[str, EventMessage]:
        """How events are told to a job's owner, by kind."""
        return _TOLD

    def market(self, row: JobReadModel, clock: SlotClock) -> Shown:
        """The market's part of a job."""
        metered, payment = metered_fields(row), None
        if metered is not None and row.body["finished_at"] is not None:
            payment = metered["cost"] if row.body["decision"]["admitted"] else None
        return {**market_fields(row), "payment": payment, "metered": metered}

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        """When it was thought to be done when it was decided on."""
        decision = row.body["decision"]
        if decision is None or not decision["admitted"]:
            return None
        finish: float = decision["estimate"]["finish"]
        return finish


def _decided(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    if not decision["admitted"]:
        return f"Rejected ({decision['reason']}): {PROJECTION.rejection_reason(body)}"
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


_FACTS = ("amount", "at", "price", "on_demand", "spot", "missed")

_TOLD: Mapping[str, EventMessage] = {
    **COMMON_MESSAGES,
    EventType.DECIDED: EventMessage(_decided),
    MeteredEventType.METERED: EventMessage(_metered, data_fields=_FACTS),
    SpotEventType.ENDED: EventMessage(lambda _: "All is trained; the adapter is being packed"),
}
