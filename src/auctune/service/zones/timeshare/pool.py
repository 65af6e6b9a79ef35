"""Events of a timeshare zone's pool as events of the zone, and the pool's state from these.

The zone's log is the truth of what was trained: a quantum that is not recorded is trained again.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from auctune.domain import Money
from auctune.engine.messages.pool import SliceResult
from auctune.engine.pool.clock import Clock
from auctune.engine.pool.events import (
    JobJoined,
    JobLeft,
    JobNoted,
    JobOutlook,
    JobRejected,
    PoolEvent,
    PoolState,
    QuantumTrained,
)
from auctune.service.storage.events import ZoneEvent
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import JobNoted as JobNotedBody
from auctune.service.zones.core.events import JobTrained
from auctune.service.zones.core.metered import SLOWER_THAN_SOLD
from auctune.service.zones.core.speed import MAX_SHORTFALL
from auctune.service.zones.timeshare.decision import charge_amount
from auctune.service.zones.timeshare.events import JobJoined as JobJoinedPool
from auctune.service.zones.timeshare.events import JobLeft as JobLeftPool
from auctune.service.zones.timeshare.events import (
    PoolNoted,
    TimeshareDecided,
    TimeshareMetered,
    UnitTrained,
)
from auctune.service.zones.timeshare.job import TimeshareJob
from auctune.service.zones.timeshare.state import TimeshareState
from auctune.service.zones.timeshare.zone import TimeshareZone

NODE = "pool"
"""Name of the node that trains the jobs of a timeshare zone."""


def record_event(
    zone: TimeshareZone, event: PoolEvent, outlooks: Sequence[JobOutlook] = ()
) -> None:
    """Record an event of the pool; `outlooks` are of a quantum's jobs."""
    number = zone.state.journal_offset + 1
    match event:
        case QuantumTrained():
            with zone.atomic():
                _quantum(zone, number, event, {one.id: one for one in outlooks})
        case JobJoined():
            job = zone.state.charged_job(event.id)
            if job is not None:
                with zone.atomic():
                    _joined(zone, number, event, job)
        case JobLeft() | JobRejected() | JobNoted():
            # A job may have been cancelled meanwhile.
            if event.id in zone.state.jobs:
                _changed(zone, number, event)


def read_pool_state(
    events: Iterable[ZoneEvent],
    settings: Mapping[str, dict[str, Any]],
    last: int,
    clock: Clock,
    slots: SlotClock,
) -> PoolState:
    """Return the state of a pool from the events of its zone.

    Args:
        events: all since the first of its jobs was decided on.
        settings: what the jobs train that have joined the pool and not left it, by id; other jobs
            are left out.
        last: number of the newest quantum; -1 if there is none.
        clock: by which the jobs' rates followed what they trained.
        slots: of the zone.
    """
    state, decode, rates = PoolState(), TimeshareState().decode, dict[str, float]()
    decided: dict[str, TimeshareDecided] = {}
    unit: UnitTrained | None = None
    moment = 0.0
    rows: dict[str, TimeshareMetered] = {}

    def apply_unit() -> None:
        # The rows of a unit follow it.
        if unit is not None and not state.members.keys().isdisjoint(unit.shares):
            quantum = _recorded_quantum(unit, moment, rows, state, rates, clock)
            state.apply(quantum)
            rates.update(zip(quantum.jobs, quantum.rates, strict=True))
        rows.clear()

    for event in events:
        job, is_member = event.job or "", event.job in settings
        match decode(event):
            case TimeshareDecided() as decision if is_member:
                decided[job] = decision
            case UnitTrained() as trained:
                apply_unit()
                unit = trained
                moment = (event.at - slots.epoch) / slots.slot_seconds
            case JobJoinedPool() as joined:
                # It may be followed by a charge for loading the job.
                apply_unit()
                unit = None
                if is_member:
                    rates[job] = joined.rate
                    state.apply(_joined_event(job, joined, decided[job], settings[job]))
            case TimeshareMetered() as row if is_member:
                rows[job] = row
            case _:
                pass
    apply_unit()
    state.last = last
    return state


def _joined_event(
    job: str, joined: JobJoinedPool, decided: TimeshareDecided, settings: dict[str, Any]
) -> JobJoined:
    return JobJoined(
        id=job,
        time=joined.unit,
        deadline=decided.deadline_unit,
        threshold=decided.decision["target_loss"],
        settings=settings,
        rate=joined.rate,
        memory_bytes=int(joined.memory),
        seconds=0.0,
    )


def _recorded_quantum(
    unit: UnitTrained,
    moment: float,
    rows: Mapping[str, TimeshareMetered],
    state: PoolState,
    rates: Mapping[str, float],
    clock: Clock,
) -> QuantumTrained:
    """Return a quantum as its members had it, from the charges for it."""
    names = [name for name in unit.shares if name in state.members]
    found = [rows.get(name) for name in names]
    batches = [0 if row is None else row.batches for row in found]
    seconds = [0.0 if row is None else float(row.seconds) for row in found]
    new_rates = clock.update_rates(
        np.array([rates[name] for name in names]),
        np.array(batches, dtype=np.float64),
        np.array(seconds),
        np.array([state.members[name].batches == 0 for name in names]),
    )
    return QuantumTrained(
        time=unit.unit,
        moment=moment,
        span=float(unit.span),
        jobs=names,
        shares=[float(unit.shares[name]) for name in names],
        batches=batches,
        losses=[math.nan if row is None or row.loss is None else row.loss for row in found],
        seconds=seconds,
        rates=new_rates.tolist(),
        read=[(0, 0)] * len(names),
    )


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
        _meter(zone, job, event.time, SliceResult(seconds=event.seconds))


def _quantum(
    zone: TimeshareZone, number: int, event: QuantumTrained, outlooks: Mapping[str, JobOutlook]
) -> None:
    shares = dict(zip(event.jobs, event.shares, strict=True))
    zone.record(UnitTrained(number=number, unit=event.time, span=event.span, shares=shares))
    accuracies = event.accuracies or [math.nan] * len(event.jobs)
    columns = (event.batches, event.losses, accuracies, event.seconds, event.read)
    for name, *values in zip(event.jobs, *columns, strict=True):
        job, row = zone.state.charged_job(name), SliceResult(*values)
        if job is not None and job.departure is None and row.seconds:
            _trained(zone, job, event.time, row, shares[name], outlooks.get(name))


def _trained(
    zone: TimeshareZone,
    job: TimeshareJob,
    unit: int,
    row: SliceResult,
    share: float,
    outlook: JobOutlook | None,
) -> None:
    loss = _meter(zone, job, unit, row, share, outlook)
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
    zone: TimeshareZone,
    job: TimeshareJob,
    unit: int,
    row: SliceResult,
    share: float = 0.0,
    outlook: JobOutlook | None = None,
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
        share=share,
        finish=None if outlook is None else outlook.finish,
        verdict=None if outlook is None else outlook.status.value,
        charged_seconds=charged_seconds,
    )
    zone.record(metered, job.id)
    return loss
