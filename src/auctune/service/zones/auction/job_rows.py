"""Rows of an auction's jobs: what they hold beside what rows of all kinds do.

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
from auctune.service.zones import fixed_price
from auctune.service.zones.auction.open_job import OpenJob, cell_records
from auctune.service.zones.auction.records import Record, task_record
from auctune.service.zones.job_rows import JobRows

_WHY = {
    Reason.NO_FEASIBLE_SCHEDULE: "no node could finish it by its deadline, even if all were free",
    Reason.NO_CAPACITY: "what is left of the nodes cannot finish it by its deadline",
    Reason.UNPROFITABLE: "the bid is not above the price",
    Reason.OVER_BUDGET: "the price is above what is left of the budget",
}

_OF_DECISION = ("size", "task", "decision", "earliest", "budget_left")


class AuctionRows(JobRows[OpenJob]):
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

    def job_fields(self, job: OpenJob) -> Record:
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

    def has_started(self, job: OpenJob) -> bool:
        """Whether a job has trained."""
        return bool(job.progress.steps or job.progress.rows)

    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        """The reason for people."""
        return fixed_price.why_rejected(body, _WHY)

    def rejected_param(self, body: Mapping[str, Any]) -> str:
        """The deadline, or the bid."""
        return fixed_price.rejected_for(body)


ROWS = AuctionRows()
