"""Rows of rented jobs: what they hold beside what rows of all kinds do.

| key | holds |
| --- | --- |
| meter | what may be charged, and is |
| first, deadline_slots | its first slot, and how many there are up to its deadline |
| worth | amount, deadline, zero_at, and `reached`, what it was worth when it was done |
"""

from collections.abc import Mapping
from typing import Any

from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.job_row import JobRow, Status, blank_body
from auctune.service.zones.metered.shown import METERED_ROW
from auctune.service.zones.received import Received
from auctune.service.zones.spot.deciding import NO_CAPACITY, OVER_BUDGET, OVER_CAP
from auctune.service.zones.spot.rented_job import RentedJob

Record = dict[str, Any]

_WHY = {
    OVER_CAP: "with a probability of more than 0.1 it costs more than the cap",
    OVER_BUDGET: "with a probability of more than 0.1 it costs more than is left of the budget",
    NO_CAPACITY: "the zone has as many jobs as it runs at once",
}

_PARAM = {OVER_CAP: "market.max_cost", OVER_BUDGET: "market.max_cost", NO_CAPACITY: None}

_STATES: dict[str, str] = {
    Kind.FINISHED: "finished",
    Kind.CANCELLED: "cancelled",
    Kind.FAILED: "failed",
    Kind.DECIDED: "rejected",
}


def nothing_own() -> Record:
    """The keys of a rented job's row, with nothing in them."""
    return {**METERED_ROW, "first": None, "deadline_slots": None, "worth": None}


def open_row(job: RentedJob, event: ZoneEvent) -> JobRow:
    """An admitted job."""
    status = Status.RUNNING if job.progress.rows else Status.QUEUED
    return JobRow(job.id, event.zone, job.seq, job.owner, job.created_at, status, _body(job))


def closed_row(
    event: ZoneEvent, seq: int, created_at: float, status: Status, job: RentedJob | Received | None
) -> JobRow:
    """A job that is over, or was never admitted.

    Args:
        event: the last one about it.
        seq, created_at: of its row.
        status: that it has from now on.
        job: as it stood before; none: the event says it all.
    """
    body = event.body
    if isinstance(job, RentedJob):
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
        row |= {"error": _rejection(body), "finished_at": at}
        status = Status.FAILED
    return JobRow(job, zone, 0, body["owner"], at, status, row)


def why_rejected(body: Mapping[str, Any]) -> str:
    """The reason for people.

    Args:
        body: of a rejection's event.
    """
    decision = body["decision"]
    least = decision["least_max_cost"]
    return _WHY[decision["reason"]] + ("" if least is None else f"; {least} would do")


def _blank(owner: str, request: Record, training: Record) -> Record:
    return {**blank_body(owner, request, training), **nothing_own()}


def _decided(body: Record) -> Record:
    return {
        **_blank(body["owner"], body["request"], body["training"]),
        "size": body["size"],
        "decision": body["decision"],
        "first": body["first"],
        "deadline_slots": body["terms"]["deadline"],
        "worth": body["worth"],
    }


def _body(job: RentedJob) -> Record:
    return {
        **_blank(job.owner, job.request, job.training.to_record()),
        "state": job.phase.value,
        "size": {"rows": job.size.rows, "mean_tokens": job.size.mean_tokens},
        "decision": job.decision,
        "first": job.first,
        "deadline_slots": job.terms.deadline,
        "worth": job.worth,
        "progress": job.progress.to_record(),
        "meter": job.meter.to_record(),
        "notes": list(job.notes),
    }


def _error(event: ZoneEvent) -> Record | None:
    if event.kind == Kind.FAILED:
        return {name: event.body[name] for name in ("code", "message", "param")}
    return _rejection(event.body) if event.kind == Kind.DECIDED else None


def _rejection(body: Record) -> Record:
    reason = body["decision"]["reason"]
    return {"code": "bid_rejected", "message": why_rejected(body), "param": _PARAM[reason]}
