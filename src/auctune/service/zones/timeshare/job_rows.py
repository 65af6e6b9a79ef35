"""Rows of a timeshare zone's jobs: what they hold beside what rows of all kinds do.

| key | holds |
| --- | --- |
| meter | what it has cost |
| target | target_loss, deadline_unit, best_loss, share, finish_unit, verdict, pool_seconds, curve |

The curve is [[batches, loss]], where long each point several units.
"""

from dataclasses import asdict
from typing import Any, Protocol

from auctune.service.jobs.training import Training
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.job_row import JobRow, Record, Status, blank_body
from auctune.service.zones.metered.shown import METERED_ROW
from auctune.service.zones.timeshare.deciding import OVER_BUDGET
from auctune.service.zones.timeshare.open_job import TargetJob


class Asked(Protocol):
    """A job that its owner asked for."""

    owner: str
    request: dict[str, Any]
    training: Training


_STATES: dict[str, str] = {
    Kind.FINISHED: "finished",
    Kind.CANCELLED: "cancelled",
    Kind.FAILED: "failed",
    Kind.DECIDED: "rejected",
}


def nothing_own() -> Record:
    """The keys of such rows, with nothing in them."""
    return {**METERED_ROW, "target": None}


def open_row(job: TargetJob, event: ZoneEvent) -> JobRow:
    """An admitted job."""
    status = Status.RUNNING if job.progress.steps else Status.QUEUED
    return JobRow(job.id, event.zone, job.seq, job.owner, job.created_at, status, _open_body(job))


def closed_row(
    event: ZoneEvent, seq: int, created_at: float, status: Status, job: Asked | None = None
) -> JobRow:
    """A job that is over, or was never admitted.

    Args:
        event: the last one about it.
        seq, created_at, status: of the row.
        job: as it stood before; none: the event says it all.
    """
    body = event.body
    if isinstance(job, TargetJob):
        row = _open_body(job)
    elif job is not None:
        row = _blank(job.owner, job.request, job.training.to_record())
    else:
        row = _blank(body["owner"], body["request"], body["training"])
        row |= {"size": body["size"], "decision": body["decision"]}
    refunded = body.get("refund", False) and isinstance(job, TargetJob)
    row |= {
        "state": "refunded" if refunded else _STATES[event.kind],
        "finished_at": event.at,
        "files": body.get("files", []),
        "refunded": refunded,
        "error": _error(event),
    }
    owner = job.owner if job is not None else body["owner"]
    return JobRow(event.job or "", event.zone, seq, owner, created_at, status, row)


def previewed_row(job: str, zone: str, at: float, body: Record) -> JobRow:
    """A job as it would be; it is nowhere on record.

    Args:
        job: its id.
        zone: that was asked.
        at: unix time.
        body: of the event that would have happened.
    """
    row = _blank(body["owner"], body["request"], body["training"])
    row |= {"size": body["size"], "decision": body["decision"], "state": "what_if"}
    status = Status.QUEUED
    if not body["decision"]["admitted"]:
        row |= {"error": rejection(body["decision"]), "finished_at": at}
        status = Status.FAILED
    return JobRow(job, zone, 0, body["owner"], at, status, row)


def rejection(decision: Record) -> Record:
    """Why a job was not taken."""
    message = "nothing is left of the budget"
    assert decision["reason"] == OVER_BUDGET, decision["reason"]
    return {"code": "bid_rejected", "message": message, "param": "market.max_cost"}


def _error(event: ZoneEvent) -> Record | None:
    if event.kind == Kind.FAILED:
        return {name: event.body[name] for name in ("code", "message", "param")}
    return rejection(event.body["decision"]) if event.kind == Kind.DECIDED else None


def _blank(owner: str, request: Record, training: Record) -> Record:
    return {**blank_body(owner, request, training), **nothing_own()}


def _open_body(job: TargetJob) -> Record:
    return {
        **_blank(job.owner, job.request, job.training.to_record()),
        "state": job.phase.value,
        "size": asdict(job.size),
        "decision": job.decision,
        "progress": job.progress.to_record(),
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
        "notes": list(job.notes),
    }
