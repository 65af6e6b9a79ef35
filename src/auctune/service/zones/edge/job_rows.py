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
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.job_row import JobRow, Status, blank_body
from auctune.service.zones.received import Received

Record = dict[str, Any]

_WHY = {
    Reason.NO_FEASIBLE_SCHEDULE: "the sites could not train it by its deadline, even if all of "
    "them were free",
    Reason.NO_CAPACITY: "what is left of the sites cannot train it by its deadline",
    Reason.UNPROFITABLE: "the bid is not above the price",
}

_STATES: dict[str, str] = {
    Kind.FINISHED: "finished",
    Kind.CANCELLED: "cancelled",
    Kind.FAILED: "failed",
    Kind.DECIDED: "rejected",
}


def nothing_own() -> Record:
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


def open_row(job: SiteJob, event: ZoneEvent) -> JobRow:
    """An admitted job."""
    status = Status.RUNNING if job.trained else Status.QUEUED
    return JobRow(job.id, event.zone, job.seq, job.owner, job.created_at, status, _body(job))


def closed_row(
    event: ZoneEvent, seq: int, created_at: float, status: Status, job: SiteJob | Received | None
) -> JobRow:
    """A job that is over, or was never admitted.

    Args:
        event: the last one about it.
        seq, created_at: of its row.
        status: that it has from now on.
        job: as it stood before; none: the event says it all.
    """
    body = event.body
    if isinstance(job, SiteJob):
        row, owner = _body(job), job.owner
    elif job is not None:
        row, owner = _blank(job.owner, job.request, job.training.to_record()), job.owner
    else:
        row, owner = _decided(body), body["owner"]
    refunded = body.get("refund", False)
    row |= {
        "state": "refunded" if refunded else _STATES[event.kind],
        "finished_at": event.at,
        "files": body.get("files", []),
        "refunded": refunded,
        "error": _error(event),
    }
    return JobRow(event.job or "", event.zone, seq, owner, created_at, status, row)


def previewed_row(zone: str, at: float, job: str, body: Record) -> JobRow:
    """A job as it would be; it is nowhere on record."""
    row = {**_decided(body), "state": "what_if"}
    status = Status.QUEUED
    if not body["decision"]["admitted"]:
        row |= {"error": fixed_price.rejection(body, _WHY), "finished_at": at}
        status = Status.FAILED
    return JobRow(job, zone, 0, body["owner"], at, status, row)


def why_rejected(body: Mapping[str, Any]) -> str:
    """The reason for people.

    Args:
        body: of a rejection's event.
    """
    return fixed_price.why_rejected(body, _WHY)


def _blank(owner: str, request: Record, training: Record) -> Record:
    return {**blank_body(owner, request, training), **nothing_own()}


def _decided(body: Record) -> Record:
    plan = body["answer"]["plan"]
    return {
        **_blank(body["owner"], body["request"], body["training"]),
        "size": body["size"],
        "decision": body["decision"],
        "facts": body["facts"],
        "plan": [] if plan is None else plan,
        "earliest": body["earliest"],
        "budget_left": body["budget_left"],
    }


def _body(job: SiteJob) -> Record:
    return {
        **_blank(job.owner, job.request, job.training.to_record()),
        "state": job.phase.value,
        "size": size_record(job.facts),
        "decision": job.decision,
        "facts": job.facts.to_record(),
        "plan": plan_record(job.plan),
        "trained": list(job.trained),
        "torn": job.torn,
        "crossed_mb": job.crossed_mb,
        "progress": job.progress.to_record(),
        "notes": list(job.notes),
    }


def size_record(facts: SiteFacts) -> Record:
    """How much data there are, as rows of all kinds have it: numbers stand for tokens."""
    channels, height, width = facts.image
    return {"rows": facts.total, "mean_tokens": float(channels * height * width)}


def _error(event: ZoneEvent) -> Record | None:
    if event.kind == Kind.FAILED:
        return {name: event.body[name] for name in ("code", "message", "param")}
    return fixed_price.rejection(event.body, _WHY) if event.kind == Kind.DECIDED else None
