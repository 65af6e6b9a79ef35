"""Background worker of a spot zone: processes of jobs, their messages, slots.

A job's process rents and trains by itself, and keeps a journal. After every start it sends all of
the journal again; what is recorded already is ignored.
"""

import asyncio
from pathlib import Path

from auctune.domain import round_money
from auctune.engine.spot.job_config import (
    JobEnded,
    Overtime,
    SlotBilled,
    SlotTrained,
    SpotMessage,
    adapter_folder,
)
from auctune.service.config.spot import SpotConfig
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.events import JobNoted
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.metered import SLOWER_THAN_SOLD
from auctune.service.zones.core.worker import ZoneWorker
from auctune.service.zones.spot.decision import charge_amount, value_at
from auctune.service.zones.spot.events import (
    ProcessReady,
    SpotMetered,
    SpotTrained,
    TrainingCompleted,
)
from auctune.service.zones.spot.job import CAP_REACHED, SpotJobState
from auctune.service.zones.spot.processes import JobProcessPool
from auctune.service.zones.spot.supply import SpotSupply
from auctune.service.zones.spot.zone import SpotZone


def on_message(zone: SpotZone, name: str, message: SpotMessage) -> None:
    """Record a message of a job's process; ignore it if the job has ended."""
    zone.begin_slots()
    job = zone.state.jobs.get(name)
    if job is None:
        return
    match message["kind"]:
        case "ready":
            zone.record(ProcessReady(seconds=message["seconds"]), name)
        case "slot":
            _charge(zone, job, message)
        case "overtime":
            _charge(zone, job, message)
            _record_training(zone, job, message)
        case "slot_done":
            _record_training(zone, job, message)
        case "ended":
            _finish(zone, job, message)
        case "capped":
            if job.was_slowed:
                found = f"its cap of {job.meter.cap} does not suffice: {SLOWER_THAN_SOLD}"
                zone.fail(name, "service_failed", found, None)
                return
            next_slot, left = round_money(message["rate"] * job.unit_price), job.meter.remaining
            why = (
                f"the cap of {job.meter.cap} is reached: {left} remains, "
                f"and the next slot would cost {next_slot}"
            )
            zone.fail(name, CAP_REACHED, why, "market.max_cost", refund=False)
        case "failed":
            why = " ".join(part for part in (message["place"], message["found"]) if part)
            zone.fail(name, "training_failed", why, None)
        case "noted":
            zone.note(name, message["text"])


def _charge(zone: SpotZone, job: SpotJobState, message: SlotBilled | Overtime) -> None:
    number = message["slot"]
    if job.meter.is_charged(number):
        return
    if message["kind"] == "slot" and message["skipped"] and not job.was_paused:
        _note_slower(zone, job)
    is_free = message["kind"] == "overtime" and job.was_slowed
    amount = charge_amount(message["paid"], job.unit_price, job.meter.remaining, is_free=is_free)
    if message["kind"] == "slot":
        at, share = job.first + number, 1.0
        price, spot, missed = message["price"], message["spot"], message["skipped"]
        preempted = job.num_preempted(message["spot_before"])
    else:
        at, share = job.first + int(message["since"]), message["until"] - message["since"]
        price, spot, missed, preempted = None, 0, False, 0
    metered = SpotMetered(
        slot=number,
        amount=amount,
        cost=round_money(message["paid"] * job.unit_cost),
        at=at,
        share=share,
        price=price,
        on_demand=message["on_demand"],
        spot=spot,
        missed=missed,
        preempted=preempted,
    )
    zone.record(metered, job.id)


def _note_slower(zone: SpotZone, job: SpotJobState) -> None:
    if not job.was_slowed:
        zone.record(JobNoted(text=SLOWER_THAN_SOLD), job.id)


def _record_training(zone: SpotZone, job: SpotJobState, message: SlotTrained | Overtime) -> None:
    number = message["slot"]
    if number < job.next_trained:
        return
    # A slot in which nothing was trained left no checkpoint.
    rows, refund = message["rows"] or job.progress.rows, None
    if (
        message["kind"] == "slot_done"
        and number == job.meter.next_slot - 1
        and job.is_slower_than_sold(rows, message["preempted"])
    ):
        refund = charge_amount(message["paid"], job.unit_price, job.meter.charged)
        _note_slower(zone, job)
    if rows == job.progress.rows and refund is None:
        return
    result = {
        "rows": rows,
        "total_rows": job.total_rows,
        "tokens": message["tokens"] or job.progress.tokens,
        "steps": message["steps"] or job.progress.steps,
        "losses": message["losses"],
        "validation": message["validation"],
        "state": "suspended",
        "note": "",
    }
    trained = SpotTrained(
        node=zone.name,
        slot=zone.state.slot,
        seconds=zone.clock.slot_seconds,
        number=number,
        result=result,
        refund=refund,
    )
    zone.record(trained, job.id)


def _finish(zone: SpotZone, job: SpotJobState, message: JobEnded) -> None:
    if job.phase is Phase.TRAINED:
        return
    if message["state"] != "done":
        # The training diverged: that is not the market's failure.
        zone.fail(job.id, "training_diverged", message["note"], None, refund=False)
        return
    done = zone.clock.slot_start(job.first) + message["finish"] * zone.clock.slot_seconds
    completed = TrainingCompleted(
        state=message["state"],
        note=message["note"],
        finish=message["finish"],
        worth=value_at(job.worth, done),
    )
    zone.record(completed, job.id)


class SpotWorker(ZoneWorker[SpotZone]):
    """Worker of a spot zone: a process for each running job, restarted until the job has ended.

    Args:
        actor: actor of the zone.
        supply: what the zone offers.
        entry: settings of the zone.
        dependencies: what all zones share.
    """

    def __init__(
        self,
        actor: ZoneActor[SpotZone],
        supply: SpotSupply,
        entry: SpotConfig,
        dependencies: ZoneDependencies,
    ) -> None:
        work = dependencies.dirs.work(entry.name)
        super().__init__(actor, supply.clock, work, dependencies)
        self._processes = JobProcessPool(entry, supply, dependencies, self._on_message)

    async def _stop_processes(self) -> None:
        await asyncio.to_thread(self._processes.close)

    async def _run_slot(self) -> None:
        jobs = await self._actor.call(_running_jobs)
        looping = await asyncio.to_thread(self._processes.reconcile, jobs)
        for job, how in looping.items():
            await self._abandon(job, f"its process ended repeatedly ({how})")

    def _is_running(self, job: str) -> bool:
        return self._processes.is_running(job)

    def _result_folder(self, job: SpotJobState) -> Path:
        return adapter_folder(self._work / job.id)

    def _on_message(self, job: str, message: SpotMessage) -> None:
        """Handle a message of a job's process, on a thread of the process."""
        if message["kind"] not in ("alive", "stopped"):
            self._post(lambda zone: on_message(zone, job, message))


def _running_jobs(zone: SpotZone) -> list[SpotJobState]:
    """Return the jobs that need a process: those that are neither paused nor trained."""
    zone.begin_slots()
    phases = (Phase.PLANNED, Phase.TRAINING)
    return [job for job in zone.state.jobs.values() if job.phase in phases]
