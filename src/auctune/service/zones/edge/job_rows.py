"""Rows of edge jobs: what they hold beside what rows of all kinds do.

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
from auctune.service.zones import fixed_price
from auctune.service.zones.edge.facts import SiteFacts
from auctune.service.zones.edge.open_job import SiteJob
from auctune.service.zones.job_row import Record
from auctune.service.zones.job_rows import JobRows

_WHY = {
    Reason.NO_FEASIBLE_SCHEDULE: "the sites could not train it by its deadline, even if all of "
    "them were free",
    Reason.NO_CAPACITY: "what is left of the sites cannot train it by its deadline",
    Reason.UNPROFITABLE: "the bid is not above the price",
}

_OF_DECISION = ("size", "decision", "facts", "earliest", "budget_left")


class EdgeRows(JobRows[SiteJob]):
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

    def job_fields(self, job: SiteJob) -> Record:
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

    def has_started(self, job: SiteJob) -> bool:
        """Whether a job has trained."""
        return bool(job.trained)

    def rejection_reason(self, body: Mapping[str, Any]) -> str:
        """The reason for people."""
        return fixed_price.why_rejected(body, _WHY)

    def rejected_param(self, body: Mapping[str, Any]) -> str:
        """The deadline, or the bid."""
        return fixed_price.rejected_for(body)


def size_record(facts: SiteFacts) -> Record:
    """How much data there are, as rows of all kinds have it: numbers stand for tokens."""
    channels, height, width = facts.image
    return {"rows": facts.total, "mean_tokens": float(channels * height * width)}


ROWS = EdgeRows()
