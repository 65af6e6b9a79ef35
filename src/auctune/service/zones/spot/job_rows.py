"""Rows of rented jobs: what they hold beside what rows of all kinds do.

| key | holds |
| --- | --- |
| meter | what may be charged, and is |
| first, deadline_slots | its first slot, and how many there are up to its deadline |
| worth | amount, deadline, zero_at, and `reached`, what it was worth when it was done |
"""

from collections.abc import Mapping
from typing import Any

from auctune.service.zones.job_row import Record
from auctune.service.zones.job_rows import JobRows
from auctune.service.zones.metered.shown import METERED_ROW
from auctune.service.zones.spot.deciding import NO_CAPACITY, OVER_BUDGET, OVER_CAP
from auctune.service.zones.spot.rented_job import RentedJob

_WHY = {
    OVER_CAP: "with a probability of more than 0.1 it costs more than the cap",
    OVER_BUDGET: "with a probability of more than 0.1 it costs more than is left of the budget",
    NO_CAPACITY: "the zone has as many jobs as it runs at once",
}

_PARAM = {OVER_CAP: "market.max_cost", OVER_BUDGET: "market.max_cost", NO_CAPACITY: None}


class SpotRows(JobRows[RentedJob]):
    """Makes rows of rented jobs."""

    def default_fields(self) -> Record:
        """The keys of a rented job's row, with nothing in them."""
        return {**METERED_ROW, "first": None, "deadline_slots": None, "worth": None}

    def job_fields(self, job: RentedJob) -> Record:
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

    def has_started(self, job: RentedJob) -> bool:
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


ROWS = SpotRows()
