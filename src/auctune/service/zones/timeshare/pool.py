"""Events of a timeshare zone's pool, recorded in the zone; each once, by its number."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from auctune.domain import Money
from auctune.engine.pool.events import (
    JobJoined,
    JobLeft,
    JobNoted,
    JobRejected,
    PoolEvent,
    QuantumTrained,
)
from auctune.service.zones.core.events import JobNoted as JobNotedBody
from auctune.service.zones.core.events import JobTrained
from auctune.service.zones.core.metered import SLOWER_THAN_SOLD
from auctune.service.zones.core.speed import MAX_SHORTFALL
from auctune.service.zones.timeshare.decision import charge_amount
from auctune.service.zones.timeshare.events import JobJoined as JobJoinedPool
from auctune.service.zones.timeshare.events import JobLeft as JobLeftPool
from auctune.service.zones.timeshare.events import PoolNoted, TimeshareMetered, UnitTrained
from auctune.service.zones.timeshare.job import TimeshareJob
from auctune.service.zones.timeshare.zone import TimeshareZone

NODE = "pool"
"""Name of the node that trains the jobs of a timeshare zone."""

Outlooks = Mapping[str, Mapping[str, Any]]
"""Finish and status of each job of a quantum, by id."""


def on_event(zone: TimeshareZone, number: int, event: PoolEvent, outlooks: Outlooks) -> None:
    """Record an event of the pool's log, unless it is recorded already.

    `outlooks` are of a quantum's jobs; empty when the log is sent again.
    """
    if number <= zone.state.journal_offset:
        return
    match event:
        case QuantumTrained():
            with zone.atomic():
                _quantum(zone, number, event, outlooks)
        case JobJoined():
            job = zone.state.charged_job(event.id)
            if job is not None:
                with zone.atomic():
                    _joined(zone, number, event, job)
        case JobLeft() | JobRejected() | JobNoted():
            # A job may have been cancelled meanwhile.
            if event.id in zone.state.jobs:
                _changed(zone, number, event)
        case _:
            pass


def _changed(zone: TimeshareZone, number: int, event: JobLeft | JobRejected | JobNoted) -> None:
    match event:
        case JobLeft():
            loss = None if event.best is None else event.best[1]
            left = JobLeftPool(number=number, how=event.reason.value, why=event.why, best=loss)
            zone.record(left, event.id)
        case JobRejected():
            zone.fail(event.id, "training_failed", f"{event.place} {event.found}".strip(), None)
        case JobNoted():
            zone.record(PoolNoted(number=number, text=event.text), event.id)


def _joined(zone: TimeshareZone, number: int, event: JobJoined, job: TimeshareJob) -> None:
    """Record that a job was loaded; loading takes time of the pool, and is charged."""
    joined = JobJoinedPool(
        number=number, unit=event.time, rate=event.rate, memory=event.memory_bytes
    )
    zone.record(joined, job.id)
    if job.departure is None and event.seconds:
        _meter(zone, job, event.time, _Row(0, math.nan, math.nan, event.seconds, (0, 0), 0.0), {})


class _Row(NamedTuple):
    """What a job had of a quantum."""

    batches: int
    loss: float
    accuracy: float
    seconds: float
    read: tuple[int, int]
    share: float


def _quantum(zone: TimeshareZone, number: int, event: QuantumTrained, outlooks: Outlooks) -> None:
    shares = dict(zip(event.jobs, event.shares, strict=True))
    zone.record(UnitTrained(number=number, unit=event.time, span=event.span, shares=shares))
    accuracies = event.accuracies or [math.nan] * len(event.jobs)
    columns = (event.batches, event.losses, accuracies, event.seconds, event.read, event.shares)
    for name, *values in zip(event.jobs, *columns, strict=True):
        job, row = zone.state.charged_job(name), _Row(*values)
        if job is not None and job.departure is None and row.seconds:
            _trained(zone, job, event.time, row, outlooks.get(name, {}))


def _trained(
    zone: TimeshareZone, job: TimeshareJob, unit: int, row: _Row, outlook: Mapping[str, Any]
) -> None:
    loss = _meter(zone, job, unit, row, outlook)
    if not row.batches or job.id in zone.state.cancelled:
        return
    steps = job.progress.steps + row.batches
    rows, tokens = row.read
    result = {
        "rows": rows,
        "total_rows": 0,
        "tokens": tokens,
        "steps": steps,
        "state": "training",
        "losses": [] if loss is None else [[steps, rows, tokens, loss, _finite(row.accuracy)]],
        "validation": [],
        "note": "",
    }
    trained = JobTrained(node=NODE, slot=unit, seconds=row.seconds, result=result)
    zone.record(trained, job.id)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _meter(
    zone: TimeshareZone, job: TimeshareJob, unit: int, row: _Row, outlook: Mapping[str, Any]
) -> float | None:
    """Charge a job for seconds of the pool; return its loss, or None if it is not finite."""
    loss = _finite(row.loss)
    sold, charged_seconds = row.batches * zone.batch_seconds(job), None
    if 0.0 < sold < (1.0 - MAX_SHORTFALL) * row.seconds:
        charged_seconds = sold
    seconds = row.seconds if charged_seconds is None else charged_seconds
    amount = charge_amount(seconds, zone.price, job.meter.remaining)
    at_wall_time = float(zone.price) * (job.curve.seconds + row.seconds)
    is_slowed = float(job.meter.charged + amount) < (1.0 - MAX_SHORTFALL) * at_wall_time
    if charged_seconds is not None and is_slowed and not job.was_slowed:
        zone.record(JobNotedBody(text=SLOWER_THAN_SOLD), job.id)
    metered = TimeshareMetered(
        slot=job.meter.next_slot,
        amount=amount,
        cost=Money(0),
        unit=unit,
        seconds=row.seconds,
        batches=row.batches,
        loss=loss,
        share=row.share,
        finish=outlook.get("finish"),
        verdict=outlook.get("status"),
        charged_seconds=charged_seconds,
    )
    zone.record(metered, job.id)
    return loss
