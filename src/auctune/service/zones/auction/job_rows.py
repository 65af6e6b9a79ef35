"""Rows of an auction's jobs: what they hold beside what rows of all kinds do.

| key | holds |
| --- | --- |
| task, cells | what was offered, and the plan as it stands |
| earliest | the slot by whose end a job could be done that was too late for its deadline |
| budget_left | what its owner could still pay, where the price was above it |
| vendor, repaired | who is to mend its data, or did, and the id of the mended data |
"""

from collections.abc import Mapping
from typing import Any, Protocol

from auctune.domain import Reason
from auctune.run.records import decision_record
from auctune.service.jobs.training import Training
from auctune.service.zones import fixed_price
from auctune.service.zones.auction.open_job import OpenJob, cell_records
from auctune.service.zones.auction.records import Record, task_record
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.job_row import JobRow, Status, blank_body


class Asked(Protocol):
    """A job that its owner asked for."""

    owner: str
    request: dict[str, Any]
    training: Training


_WHY = {
    Reason.NO_FEASIBLE_SCHEDULE: "no node could finish it by its deadline, even if all were free",
    Reason.NO_CAPACITY: "what is left of the nodes cannot finish it by its deadline",
    Reason.UNPROFITABLE: "the bid is not above the price",
    Reason.OVER_BUDGET: "the price is above what is left of the budget",
}

_STATES: dict[str, str] = {
    Kind.FINISHED: "finished",
    Kind.CANCELLED: "cancelled",
    Kind.FAILED: "failed",
    Kind.DECIDED: "rejected",
}

_OF_DECISION = ("size", "task", "decision", "earliest", "budget_left")


def nothing_own() -> Record:
    """The keys of an auction's rows, with nothing in them."""
    return {
        "task": None,
        "earliest": None,
        "budget_left": None,
        "cells": [],
        "vendor": None,
        "repaired": None,
    }


def open_row(job: OpenJob, event: ZoneEvent) -> JobRow:
    """An admitted job."""
    status = Status.RUNNING if job.progress.steps or job.progress.rows else Status.QUEUED
    return JobRow(job.id, event.zone, job.seq, job.owner, job.created_at, status, _open_body(job))


def closed_row(
    event: ZoneEvent, seq: int, created_at: float, status: Status, job: Asked | None = None
) -> JobRow:
    """A job that is over, or was never admitted.

    Args:
        event: the last one about it.
        job: as it stood before; none: the event says it all.
    """
    body = event.body
    if isinstance(job, OpenJob):
        row = _open_body(job)
    elif job is not None:
        row = _blank(job.owner, job.request, job.training.to_record())
    else:
        row = _blank(body["owner"], body["request"], body["training"])
        row |= {name: body.get(name) for name in _OF_DECISION}
    refunded = body.get("refund", False)
    row |= {
        "state": "refunded" if refunded else _STATES[event.kind],
        "finished_at": event.at,
        "files": body.get("files", []),
        "refunded": refunded,
        "error": _error(event),
    }
    owner = job.owner if job is not None else body["owner"]
    return JobRow(event.job or "", event.zone, seq, owner, created_at, status, row)


def previewed_row(zone: str, at: float, body: Record) -> JobRow:
    """A job as it would be; it is nowhere on record.

    Args:
        zone: that was asked.
        at: unix time.
        body: of the event that would have happened.
    """
    decision = body["decision"]
    row = _blank(body["owner"], body["request"], body["training"])
    row |= {name: body[name] for name in _OF_DECISION}
    row["state"] = "what_if"
    if decision["admitted"]:
        row["cells"] = decision["schedule"]["cells"]
        row["vendor"] = decision["schedule"]["vendor"]
        status = Status.QUEUED
    else:
        row["error"] = fixed_price.rejection(body, _WHY)
        row["finished_at"] = at
        status = Status.FAILED
    return JobRow(body["task"]["id"], zone, 0, body["owner"], at, status, row)


def _blank(owner: str, request: Record, training: Record) -> Record:
    return {**blank_body(owner, request, training), **nothing_own()}


def _open_body(job: OpenJob) -> Record:
    return {
        **_blank(job.owner, job.request, job.training.to_record()),
        "state": job.phase.value,
        "size": {"rows": job.size.rows, "mean_tokens": job.size.mean_tokens},
        "task": task_record(job.task),
        "decision": decision_record(job.decision),
        "cells": cell_records(job.cells),
        "progress": dict(vars(job.progress)),
        "vendor": None if job.repair is None else job.repair.vendor,
        "repaired": job.repaired,
        "notes": list(job.notes),
    }


def _error(event: ZoneEvent) -> Record | None:
    if event.kind == Kind.FAILED:
        return {name: event.body[name] for name in ("code", "message", "param")}
    if event.kind != Kind.DECIDED:
        return None
    return fixed_price.rejection(event.body, _WHY)


def why_rejected(body: Mapping[str, Any]) -> str:
    """The reason for people.

    Args:
        body: of a rejection's event.
    """
    return fixed_price.why_rejected(body, _WHY)
