"""Projection of an auction's jobs. Their rows have, besides the fields of all kinds:

| key | value |
| --- | --- |
| task, cells | the offered task, and the current plan |
| earliest | slot by whose end a job could finish that was too late for its deadline |
| budget_remaining | remaining budget of its owner, if the price was above it |
| vendor, repaired | vendor of the repair of its data, and id of the repaired file |
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from auctune.domain import Reason
from auctune.engine.records import decision_record
from auctune.service.storage.events import EventType, Record
from auctune.service.storage.read_model import JobReadModel
from auctune.service.zones.auction.events import AuctionEventType
from auctune.service.zones.auction.job import (
    AuctionJob,
    cell_records,
    task_record,
)
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    EventMessage,
    PrepaidProjection,
    replanned_message,
)

_DECISION_FIELDS = ("size", "task", "decision", "earliest", "budget_remaining")


class AuctionProjection(PrepaidProjection[AuctionJob]):
    """Projection of an auction's jobs."""

    default_fields: ClassVar[Record] = {
        **PrepaidProjection.default_fields,
        "task": None,
        "cells": [],
        "vendor": None,
        "repaired": None,
    }
    reasons: ClassVar[Mapping[Reason, str]] = {
        Reason.NO_FEASIBLE_SCHEDULE: "no node could finish it by its deadline, even if all were "
        "free",
        Reason.NO_CAPACITY: "the free capacity cannot finish it by its deadline",
        Reason.UNPROFITABLE: "the bid is not above the price",
        Reason.OVER_BUDGET: "the price exceeds the remaining budget",
    }

    def __init__(self) -> None:
        self.messages = {
            **COMMON_MESSAGES,
            EventType.DECIDED: EventMessage(self.decision_message),
            AuctionEventType.REPAIRED: EventMessage(_repaired),
            AuctionEventType.VENDOR_CHANGED: EventMessage(_vendor_changed, "warn"),
            AuctionEventType.REPLANNED: EventMessage(replanned_message, "warn"),
        }

    def job_fields(self, job: AuctionJob) -> Record:
        return {
            "size": job.size.to_record(),
            "task": task_record(job.task),
            "decision": decision_record(job.decision),
            "cells": cell_records(job.cells),
            "vendor": None if job.repair is None else job.repair.vendor,
            "repaired": job.repaired,
        }

    def decision_fields(self, body: Record) -> Record:
        fields = {name: body.get(name) for name in _DECISION_FIELDS}
        plan = body["decision"]["schedule"]
        return fields if plan is None else fields | plan

    def market(self, row: JobReadModel, clock: SlotClock) -> Record:
        body, task = row.body, row.body["task"]
        return {
            **self.market_fields(row),
            **self.price_fields(row, clock),
            "bid": task["bid"] if task else body["request"]["bid"],
            "plan": _plan(body, clock),
        }

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        cells = row.body["cells"]
        return clock.slot_end(cells[-1]["slot"]) if cells else None


def _plan(body: Record, clock: SlotClock) -> Record | None:
    cells, decision = body["cells"], body["decision"]
    if not cells or decision is None or decision["schedule"] is None:
        return None
    return {
        "cells": [{**cell, "begins_at": clock.slot_start(cell["slot"])} for cell in cells],
        "vendor": body["vendor"],
        "start": clock.slot_start(cells[0]["slot"]),
        "finish": clock.slot_end(cells[-1]["slot"]),
    }


def _repaired(body: Mapping[str, Any]) -> str:
    return f"The data were repaired; {body['size']['rows']} rows remain"


def _vendor_changed(body: Mapping[str, Any]) -> str:
    return f"{body['why']}; {body['repair']['vendor']} repairs them instead, at no charge"
