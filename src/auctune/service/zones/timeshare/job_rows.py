"""Rows of a timeshare zone's jobs: what they hold beside what rows of all kinds do.

| key | holds |
| --- | --- |
| meter | what it has cost |
| target | target_loss, deadline_unit, best_loss, share, finish_unit, verdict, pool_seconds, curve |

The curve is [[batches, loss]], where long each point several units.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.job_row import JobRow, Record, Status
from auctune.service.zones.job_rows import JobRows
from auctune.service.zones.metered.shown import METERED_ROW
from auctune.service.zones.timeshare.deciding import OVER_BUDGET
from auctune.service.zones.timeshare.open_job import CancelledJob, TargetJob


class TimeshareRows(JobRows[TargetJob]):
    """Makes rows of a timeshare zone's jobs."""

    def default_fields(self) -> Record:
        """The keys of such rows, with nothing in them."""
        return {**METERED_ROW, "target": None}

    def job_fields(self, job: TargetJob) -> Record:
        """What it costs, and how far it is from its target."""
        return {
            "size": job.size.to_record(),
            "decision": job.decision,
            "meter": job.meter.to_record(),
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
        """What was answered."""
        return {"size": body["size"], "decision": body["decision"]}

    def has_started(self, job: TargetJob) -> bool:
        """Whether a job has trained."""
        return bool(job.progress.steps)

    def cancelled(self, event: ZoneEvent, cancelled: CancelledJob) -> JobRow:
        """Return the row of a cancelled job after an event that changes what it cost."""
        last = replace(event, kind=Kind.CANCELLED, at=cancelled.at)
        return self.closed(last, cancelled.job, Status.CANCELLED, refunded=False)

    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        """The reason for people: there is one."""
        reason = body["decision"]["reason"]
        assert reason == OVER_BUDGET, reason
        return "nothing is left of the budget"

    def rejected_param(self, body: Mapping[str, Any]) -> str:
        """The cap."""
        return "market.max_cost"


ROWS = TimeshareRows()
