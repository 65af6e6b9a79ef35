"""Events of a timeshare zone's pool, recorded in the zone; each once, by its number."""

import math
from collections.abc import Mapping
from typing import Any

from auctune.domain import Money
from auctune.service.zones.core.events import JobTrained
from auctune.service.zones.timeshare.decision import charge_amount
from auctune.service.zones.timeshare.events import (
    JobJoined,
    JobLeft,
    PoolNoted,
    TimeshareMetered,
    UnitTrained,
)
from auctune.service.zones.timeshare.job import TimeshareJob
from auctune.service.zones.timeshare.zone import TimeshareZone

NODE = "pool"
"""Name of the node that trains the jobs of a timeshare zone."""

Views = Mapping[str, Mapping[str, Any]]


def on_event(zone: TimeshareZone, number: int, event: Mapping[str, Any], views: Views) -> None:
    """Record an event of the pool's journal, unless it is recorded already.

    `views` are forecasts of a unit's jobs; empty when the journal is sent again.
    """
    if number <= zone.state.journal_offset:
        return
    kind, job = event["type"], event.get("id")
    if kind == "unit":
        with zone.atomic():
            _unit(zone, number, event, views)
    elif kind == "joined" and zone.state.charged_job(event["id"]) is not None:
        with zone.atomic():
            _joined(zone, number, event)
    elif job not in zone.state.jobs:
        # The job was cancelled meanwhile.
        return
    elif kind == "left":
        best = event["best"]
        loss = None if best is None else best["loss"]
        zone.record(JobLeft(number=number, how=event["how"], why=event["why"], best=loss), job)
    elif kind == "refused":
        why = f"{event['place']} {event['found']}".strip()
        zone.fail(job, "training_failed", why, None)
    elif kind == "noted":
        zone.record(PoolNoted(number=number, text=event["text"]), job)


def _joined(zone: TimeshareZone, number: int, event: Mapping[str, Any]) -> None:
    """Record that a job was loaded; loading takes time of the pool, and is charged."""
    job, unit, seconds = zone.state.charged_job(event["id"]), event["time"], event["seconds"]
    assert job is not None
    joined = JobJoined(number=number, unit=unit, rate=event["rate"], memory=event["memory"])
    zone.record(joined, job.id)
    if job.departure is None and seconds:
        row = {"seconds": seconds, "batches": 0, "losses": math.nan}
        _meter(zone, job, unit, row, 0.0, {})


def _unit(zone: TimeshareZone, number: int, event: Mapping[str, Any], views: Views) -> None:
    shares = dict(zip(event["names"], event["shares"], strict=True))
    zone.record(UnitTrained(number=number, unit=event["time"], span=event["span"], shares=shares))
    for place, name in enumerate(event["names"]):
        job = zone.state.charged_job(name)
        if job is not None and job.departure is None and event["seconds"][place]:
            row = {key: event[key][place] for key in ("batches", "losses", "seconds", "learned")}
            _trained(zone, job, event["time"], row, shares[name], views.get(name, {}))


def _trained(
    zone: TimeshareZone,
    job: TimeshareJob,
    unit: int,
    row: Mapping[str, Any],
    share: float,
    view: Mapping[str, Any],
) -> None:
    loss = _meter(zone, job, unit, row, share, view)
    if not row["batches"] or job.id in zone.state.cancelled:
        return
    steps = job.progress.steps + row["batches"]
    rows, tokens = row["learned"]
    result = {
        "rows": rows,
        "total_rows": 0,
        "tokens": tokens,
        "steps": steps,
        "state": "training",
        "losses": [] if loss is None else [[steps, rows, tokens, loss]],
        "validation": [],
        "note": "",
    }
    trained = JobTrained(node=NODE, slot=unit, seconds=row["seconds"], result=result)
    zone.record(trained, job.id)


def _meter(
    zone: TimeshareZone,
    job: TimeshareJob,
    unit: int,
    row: Mapping[str, Any],
    share: float,
    view: Mapping[str, Any],
) -> float | None:
    """Charge a job for seconds of the pool; return its loss, or None if it is not finite."""
    loss = row["losses"] if math.isfinite(row["losses"]) else None
    metered = TimeshareMetered(
        slot=job.meter.next_slot,
        amount=charge_amount(row["seconds"], zone.price, job.meter.remaining),
        cost=Money(0),
        unit=unit,
        seconds=row["seconds"],
        batches=row["batches"],
        loss=loss,
        share=share,
        finish=view.get("finish"),
        verdict=view.get("verdict"),
    )
    zone.record(metered, job.id)
    return loss
