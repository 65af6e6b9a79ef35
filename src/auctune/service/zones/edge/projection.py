"""Projection of edge jobs: fields of their rows, and messages to owners.

| key | holds |
| --- | --- |
| facts | samples by site, the shape of an image, and classes |
| plan | slots that are trained and those to come, and the traffic of each |
| trained | slots whose training is on record |
| torn, crossed_mb | how many slots came to nothing, and what crossed sites |
| earliest | the slot by whose end a job could be done that was too late for its deadline |
| budget_left | what its owner could still pay, where the price was above it |
"""

from collections.abc import Mapping
from typing import Any

from auctune.domain import Reason
from auctune.run.edge.plain import plan_record
from auctune.service.zones.core import projection
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    EventMessage,
    JobProjection,
    market_fields,
)
from auctune.service.zones.core.read_model import JobReadModel, Record
from auctune.service.zones.edge.job import EdgeEventType, EdgeJobState
from auctune.service.zones.edge.site_datasets import SiteDatasets

_WHY = {
    Reason.NO_FEASIBLE_SCHEDULE: "the sites could not train it by its deadline, even if all of "
    "them were free",
    Reason.NO_CAPACITY: "what is left of the sites cannot train it by its deadline",
    Reason.UNPROFITABLE: "the bid is not above the price",
}

_OF_DECISION = ("size", "decision", "facts", "earliest", "budget_left")


class EdgeProjection(JobProjection[EdgeJobState]):
    """Makes rows of edge jobs."""

    def default_fields(self) -> Record:
        """The keys of an edge job's row, with nothing in them."""
        return {
            "facts": None,
            "plan": [],
            "trained": [],
            "torn": 0,
            "crossed_mb": 0.0,
            "earliest": None,
            "budget_left": None,
        }

    def job_fields(self, job: EdgeJobState) -> Record:
        """What was promised, and how far it is."""
        return {
            "size": size_record(job.facts),
            "decision": job.decision,
            "facts": job.facts.to_record(),
            "plan": plan_record(job.plan),
            "trained": list(job.trained),
            "torn": job.failed_slots,
            "crossed_mb": job.transferred_mb,
        }

    def decision_fields(self, body: Record) -> Record:
        """What was answered, and the plan, if there is one."""
        plan = body["answer"]["plan"]
        known = {name: body[name] for name in _OF_DECISION}
        return {**known, "plan": [] if plan is None else plan}

    def has_started(self, job: EdgeJobState) -> bool:
        """Whether a job has trained."""
        return bool(job.trained)

    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        """The reason for people."""
        return projection.rejection_reason(body, _WHY)

    def rejected_param(self, body: Mapping[str, Any]) -> str:
        """The deadline, or the bid."""
        return projection.rejected_param(body)


def size_record(facts: SiteDatasets) -> Record:
    """How much data there are, as rows of all kinds have it: numbers stand for tokens."""
    channels, height, width = facts.image
    return {"rows": facts.total, "mean_tokens": float(channels * height * width)}


PROJECTION = EdgeProjection()


# Fields and messages.

Shown = dict[str, Any]

_TRAINED_BY = ("learning_rate", "weight_decay")


class EdgeViews:
    """Of all edge zones."""

    @property
    def messages(self) -> Mapping[str, EventMessage]:
        """How events are told to a job's owner, by kind."""
        return _TOLD

    def market(self, row: JobReadModel, clock: SlotClock) -> Shown:
        """The market's part of a job."""
        return {
            **market_fields(row, _TRAINED_BY),
            **projection.price_fields(row, clock),
            "plan": _plan(row.body, clock),
            "edge": _edge(row.body, clock),
        }

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        """When the last slot of its plan ends."""
        plan = row.body["plan"]
        return clock.slot_end(plan[-1]["slot"]) if plan else None


def _plan(body: Shown, clock: SlotClock) -> Shown | None:
    """A cell for each site that has workers in a slot."""
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


def _edge(body: Shown, clock: SlotClock) -> Shown | None:
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
        "torn": body["torn"],
        "crossed_mb": body["crossed_mb"],
    }


def _decided(body: Mapping[str, Any]) -> str:
    return projection.decision_message(body, PROJECTION.rejection_reason)


_TOLD: Mapping[str, EventMessage] = {
    **COMMON_MESSAGES,
    EventType.DECIDED: EventMessage(_decided),
    EventType.FINISHED: EventMessage(lambda _: "The model is ready"),
    EdgeEventType.REPLANNED: EventMessage(projection.replanned_message, "warn"),
}
