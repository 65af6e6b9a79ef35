"""A job as readers see it: one row, replaced whenever something happens to the job.

The body holds plain JSON values:

| key | holds |
| --- | --- |
| request, training, owner | what was asked for, and what was made of it |
| state | where it stands, in the market's words |
| size | rows and mean_tokens of its data |
| earliest | the slot by whose end a job could be done that was too late for its deadline |
| budget_left | what its owner could still pay, where the price was above it |
| task, decision, cells | what was offered, what was answered, the plan as it stands |
| progress | rows, total_rows, tokens, steps, first_loss, last_loss |
| vendor | who is to mend its data, or did |
| repaired, files | ids of the mended data, and of what came out |
| error | code, message and param, where it failed |
| refunded, finished_at, notes | |
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from auctune.domain import Reason
from auctune.run.records import decision_record
from auctune.service.jobs.training import Training
from auctune.service.zones.auction.open_job import OpenJob, cell_records
from auctune.service.zones.auction.records import Record, task_record
from auctune.service.zones.event import Kind, ZoneEvent


class Status(StrEnum):
    """As OpenAI's API names it."""

    VALIDATING = "validating_files"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Asked(Protocol):
    """A job that its owner asked for."""

    owner: str
    request: dict[str, Any]
    training: Training


@dataclass(frozen=True, slots=True)
class JobRow:
    """A row of the table of jobs.

    Attributes:
        id: the job's.
        zone: its zone's name.
        seq: of the first event about it: the order of lists.
        owner: user id.
        created_at: unix time.
        status: as OpenAI's API names it.
        body: see above.
    """

    id: str
    zone: str
    seq: int
    owner: str
    created_at: float
    status: Status
    body: Record


_WHY = {
    Reason.NO_FEASIBLE_SCHEDULE: "no node could finish it by its deadline, even if all were free",
    Reason.NO_CAPACITY: "what is left of the nodes cannot finish it by its deadline",
    Reason.UNPROFITABLE: "the bid is not above the price",
    Reason.OVER_BUDGET: "the price is above what is left of the budget",
}

_STATES = {
    Kind.FINISHED: "finished",
    Kind.CANCELLED: "cancelled",
    Kind.FAILED: "failed",
    Kind.DECIDED: "rejected",
}

_OF_DECISION = ("size", "task", "decision", "earliest", "budget_left")


def received_row(event: ZoneEvent) -> JobRow:
    """A job whose data are being looked at."""
    body = event.body
    return JobRow(
        event.job or "",
        event.zone,
        event.seq,
        body["owner"],
        event.at,
        Status.VALIDATING,
        {**_blank(body["owner"], body["request"], body["training"]), "state": "validating"},
    )


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
        row["error"] = _rejection(body)
        row["finished_at"] = at
        status = Status.FAILED
    return JobRow(body["task"]["id"], zone, 0, body["owner"], at, status, row)


def _blank(owner: str, request: Record, training: Record) -> Record:
    return {
        "owner": owner,
        "request": request,
        "training": training,
        "state": "",
        "size": None,
        "task": None,
        "decision": None,
        "earliest": None,
        "budget_left": None,
        "cells": [],
        "progress": None,
        "vendor": None,
        "repaired": None,
        "files": [],
        "error": None,
        "refunded": False,
        "finished_at": None,
        "notes": [],
    }


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
    if event.kind is Kind.FAILED:
        return {name: event.body[name] for name in ("code", "message", "param")}
    if event.kind is not Kind.DECIDED:
        return None
    return _rejection(event.body)


def _rejection(body: Record) -> Record:
    is_late = body["decision"]["reason"] in (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE)
    param = "market.deadline" if is_late else "market.bid"
    return {"code": "bid_rejected", "message": why_rejected(body), "param": param}


def why_rejected(body: Record) -> str:
    """The reason for people.

    Args:
        body: of a rejection's event.
    """
    decision, left = body["decision"], body.get("budget_left")
    if left is not None:
        return f"the price, {decision['price']}, is above what is left of the budget, {left}"
    return _WHY[Reason(decision["reason"])]
