"""Projection of edge jobs. Their rows have, besides the fields of all kinds:

| key | value |
| --- | --- |
| facts | rows by site, and the size of the data |
| plan | slots that are trained and those to come, with the traffic of each |
| trained | slots whose results are recorded |
| failed_slots, transferred_mb | number of failed slots, and data transferred between sites |
| earliest | slot by whose end a job could finish that was too late for its deadline |
| budget_remaining | remaining budget of its owner, if the price was above it |
"""

from collections.abc import Mapping
from typing import ClassVar

from auctune.domain import Reason
from auctune.engine.edge.records import plan_record
from auctune.service.storage.events import EventType, Record
from auctune.service.storage.read_model import JobReadModel
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import adapter
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    EventMessage,
    PrepaidProjection,
    replanned_message,
)
from auctune.service.zones.edge.events import EdgeEventType
from auctune.service.zones.edge.job import EdgeJobState
from auctune.service.zones.edge.site_datasets import SiteDatasets

_DECISION_FIELDS = ("size", "decision", "facts", "earliest", "budget_remaining")


class EdgeProjection(PrepaidProjection[EdgeJobState]):
    """Projection of edge jobs."""

    validates_each_slot: ClassVar[bool] = True
    default_fields: ClassVar[Record] = {
        **PrepaidProjection.default_fields,
        "facts": None,
        "plan": [],
        "trained": [],
        "failed_slots": 0,
        "transferred_mb": 0.0,
    }
    reasons: ClassVar[Mapping[Reason, str]] = {
        Reason.NO_FEASIBLE_SCHEDULE: "the sites could not train it by its deadline, even if all of "
        "them were free",
        Reason.NO_CAPACITY: "the free capacity of the sites cannot train it by its deadline",
        Reason.UNPROFITABLE: "the bid is not above the price",
    }

    def __init__(self) -> None:
        self.messages = {
            **COMMON_MESSAGES,
            EventType.DECIDED: EventMessage(self.decision_message),
            EdgeEventType.REPLANNED: EventMessage(replanned_message, "warn"),
        }

    def job_fields(self, job: EdgeJobState) -> Record:
        return {
            "size": job.facts.size.to_record(),
            "decision": job.decision,
            "facts": adapter(SiteDatasets).dump_python(job.facts, mode="json"),
            "plan": plan_record(job.plan),
            "trained": list(job.trained),
            "failed_slots": job.failed_slots,
            "transferred_mb": job.transferred_mb,
        }

    def decision_fields(self, body: Record) -> Record:
        plan = body["answer"]["plan"]
        fields = {name: body[name] for name in _DECISION_FIELDS}
        return {**fields, "plan": [] if plan is None else plan}

    def has_started(self, job: EdgeJobState) -> bool:
        return bool(job.trained)

    def market(self, row: JobReadModel, clock: SlotClock) -> Record:
        return {
            **self.market_fields(row),
            **self.price_fields(row, clock),
            "plan": _plan(row.body, clock),
            "edge": _edge(row.body, clock),
        }

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        plan = row.body["plan"]
        return clock.slot_end(plan[-1]["slot"]) if plan else None


def _plan(body: Record, clock: SlotClock) -> Record | None:
    """Return a plan with a cell for each site that has workers in a slot."""
    slots = body["plan"]
    if not slots:
        return None
    cells = [
        {"slot": part["slot"], "node": site, "begins_at": clock.slot_start(part["slot"])}
        for part in slots
        for site, workers in part["workers"].items()
        if workers
    ]
    return {
        "cells": cells,
        "vendor": None,
        "start": clock.slot_start(slots[0]["slot"]),
        "finish": clock.slot_end(slots[-1]["slot"]),
    }


def _edge(body: Record, clock: SlotClock) -> Record | None:
    facts = body["facts"]
    if facts is None:
        return None
    return {
        "samples": facts["samples"],
        "sites": body["request"]["sites"],
        "slots": [
            {
                **part,
                "begins_at": clock.slot_start(part["slot"]),
                "trained": part["slot"] in body["trained"],
            }
            for part in body["plan"]
        ],
        "failed_slots": body["failed_slots"],
        "transferred_mb": body["transferred_mb"],
    }
