"""Projection of an auction's jobs: fields of their rows, and messages to owners.

| key | holds |
| --- | --- |
| task, cells | what was offered, and the plan as it stands |
| earliest | the slot by whose end a job could be done that was too late for its deadline |
| budget_left | what its owner could still pay, where the price was above it |
| vendor, repaired | who is to mend its data, or did, and the id of the mended data |
"""

from collections.abc import Mapping
from typing import Any

from auctune.domain import Reason
from auctune.run.records import decision_record
from auctune.service.zones.auction.job import (
    AuctionEventType,
    AuctionJob,
    Record,
    cell_records,
    task_record,
)
from auctune.service.zones.core import projection
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    EventMessage,
    JobProjection,
    market_fields,
)
from auctune.service.zones.core.read_model import JobReadModel

_WHY = {
    Reason.NO_FEASIBLE_SCHEDULE: "no node could finish it by its deadline, even if all were free",
    Reason.NO_CAPACITY: "what is left of the nodes cannot finish it by its deadline",
    Reason.UNPROFITABLE: "the bid is not above the price",
    Reason.OVER_BUDGET: "the price is above what is left of the budget",
}

_OF_DECISION = ("size", "task", "decision", "earliest", "budget_left")


class AuctionProjection(JobProjection[AuctionJob]):
    """Makes rows of an auction's jobs."""

    def default_fields(self) -> Record:
        """The keys of an auction's rows, with nothing in them."""
        return {
            "task": None,
            "earliest": None,
            "budget_left": None,
            "cells": [],
            "vendor": None,
            "repaired": None,
        }

    def job_fields(self, job: AuctionJob) -> Record:
        """What was promised, and the plan as it stands."""
        return {
            "size": job.size.to_record(),
            "task": task_record(job.task),
            "decision": decision_record(job.decision),
            "cells": cell_records(job.cells),
            "vendor": None if job.repair is None else job.repair.vendor,
            "repaired": job.repaired,
        }

    def decision_fields(self, body: Record) -> Record:
        """What was answered; of a plan, its cells and its vendor."""
        known = {name: body.get(name) for name in _OF_DECISION}
        plan = body["decision"]["schedule"]
        return known if plan is None else known | plan

    def has_started(self, job: AuctionJob) -> bool:
        """Whether a job has trained."""
        return bool(job.progress.steps or job.progress.rows)

    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        """The reason for people."""
        return projection.rejection_reason(body, _WHY)

    def rejected_param(self, body: Mapping[str, Any]) -> str:
        """The deadline, or the bid."""
        return projection.rejected_param(body)


PROJECTION = AuctionProjection()


# Fields and messages.

Shown = dict[str, Any]


class AuctionViews:
    """Of all auctions."""

    @property
    def messages(self) -> Mapping[str, EventMessage]:
        """How events are told to a job's owner, by kind."""
        return _TOLD

    def market(self, row: JobReadModel, clock: SlotClock) -> Shown:
        """The market's part of a job."""
        body, task = row.body, row.body["task"]
        return {
            **market_fields(row),
            **projection.price_fields(row, clock),
            "bid": task["bid"] if task else body["request"]["bid"],
            "plan": _plan(body, clock),
        }

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        """When the last cell of its plan ends."""
        cells = row.body["cells"]
        return clock.slot_end(cells[-1]["slot"]) if cells else None


def _plan(body: Shown, clock: SlotClock) -> Shown | None:
    cells, decision = body["cells"], body["decision"]
    if not cells or decision is None or decision["schedule"] is None:
        return None
    return {
        "cells": [{**cell, "begins_at": clock.slot_start(cell["slot"])} for cell in cells],
        "vendor": body["vendor"],
        "start": clock.slot_start(cells[0]["slot"]),
        "finish": clock.slot_end(cells[-1]["slot"]),
    }


def _decided(body: Mapping[str, Any]) -> str:
    return projection.decision_message(body, PROJECTION.rejection_reason)


def _repaired(body: Mapping[str, Any]) -> str:
    return f"The data were repaired; {body['size']['rows']} rows remain"


def _vendor_changed(body: Mapping[str, Any]) -> str:
    return f"{body['why']}; {body['repair']['vendor']} does it instead, at no charge"


_TOLD: Mapping[str, EventMessage] = {
    **COMMON_MESSAGES,
    EventType.DECIDED: EventMessage(_decided),
    AuctionEventType.REPAIRED: EventMessage(_repaired),
    AuctionEventType.VENDOR_CHANGED: EventMessage(_vendor_changed, "warn"),
    AuctionEventType.REPLANNED: EventMessage(projection.replanned_message, "warn"),
}
