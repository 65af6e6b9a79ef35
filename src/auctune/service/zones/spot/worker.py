"""Background worker of a spot zone: processes of jobs, their messages, slots.

A job's process rents and trains by itself, and has each event of its run recorded in the zone's log
before it acts on it. A process that is started again is given these events.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import orjson
import structlog

from auctune.domain import InputError, round_money
from auctune.engine.journal import JOURNAL, read_journal
from auctune.engine.messages.base import Failed
from auctune.engine.messages.spot import CapReached, JobWarning, RunEvent, SpotReply
from auctune.engine.spot.job import SpotFolder
from auctune.engine.spot.state import EventRecord
from auctune.service.config.spot import SpotConfig
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.metered import SLOWER_THAN_SOLD
from auctune.service.zones.core.worker import ZoneWorker
from auctune.service.zones.spot.events import ProcessReady, SpotEventType
from auctune.service.zones.spot.job import CAP_REACHED, SpotJobState
from auctune.service.zones.spot.processes import JobProcessPool, run_folder
from auctune.service.zones.spot.supply import SpotSupply
from auctune.service.zones.spot.zone import SpotZone

_log = structlog.get_logger(__name__)


def on_ready(zone: SpotZone, name: str, seconds: float) -> None:
    """Record after how many seconds a job's process was ready, unless the job has ended."""
    zone.begin_slots()
    if name in zone.state.jobs:
        zone.record(ProcessReady(seconds=seconds), name)


def on_message(zone: SpotZone, name: str, message: SpotReply) -> bool:
    """Record a message of a job's process; return False, and ignore it, if the job has ended."""
    zone.begin_slots()
    job = zone.state.jobs.get(name)
    if job is None:
        return False
    match message:
        case RunEvent(event=event):
            zone.record_run_event(job, event)
        case CapReached(rate=rate):
            if job.was_slowed:
                found = f"its cap of {job.meter.cap} does not suffice: {SLOWER_THAN_SOLD}"
                zone.fail(name, "service_failed", found, None)
                return True
            next_cost, left = round_money(rate * job.unit_price), job.meter.remaining
            why = (
                f"the cap of {job.meter.cap} is reached: {left} remains, "
                f"and the next slot would cost {next_cost}"
            )
            zone.fail(name, CAP_REACHED, why, "market.max_cost", refund=False)
        case Failed(error=error):
            why = " ".join(part for part in (error.place, error.found) if part)
            zone.fail(name, "training_failed", why, None)
        case JobWarning(text=text):
            zone.note(name, text)
    return True


def import_events(zone: SpotZone, name: str, events: Sequence[EventRecord]) -> None:
    """Record the events of a run whose log was in its folder, unless the job has ended."""
    zone.begin_slots()
    job = zone.state.jobs.get(name)
    if job is not None:
        zone.import_run(job, events)


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
        self._processes = JobProcessPool(
            entry, supply, dependencies, self._on_ready, self._on_message, self._read_events
        )

    async def _start_processes(self) -> None:
        for job in await self._actor.call(lambda zone: [*zone.admitted_jobs]):
            try:
                await self._import_events(job)
            except InputError:
                # The job's owner is not to know the path that the log has.
                _log.exception("the journal of a job is damaged", job=job)
                await self._abandon(job, "the log of its run is damaged")

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
        return SpotFolder(run_folder(self._work / job.id)).adapter

    def _on_ready(self, job: str, seconds: float) -> None:
        self._post(lambda zone: on_ready(zone, job, seconds))

    def _on_message(self, job: str, message: SpotReply) -> Future[bool]:
        """Record a message of a job's process, on a thread of the process."""
        return self._post(lambda zone: on_message(zone, job, message))

    def _read_events(self, job: str) -> list[EventRecord]:
        """Return the recorded events of a job's run."""
        return [
            orjson.loads(row.body)["event"]
            for row in self._events.read_job(job)
            if row.type == SpotEventType.RUN_EVENT
        ]

    async def _import_events(self, job: str) -> None:
        """Import the events of a run that an earlier release began, once.

        Raises:
            InputError: if its log is damaged.
        """
        journal = SpotFolder(run_folder(self._work / job)).state / JOURNAL
        events = await asyncio.to_thread(read_journal, journal)
        if events and not await asyncio.to_thread(self._read_events, job):
            await self._actor.call(lambda zone: import_events(zone, job, events))


def _running_jobs(zone: SpotZone) -> list[SpotJobState]:
    """Return the jobs that need a process: those that are neither paused nor trained."""
    zone.begin_slots()
    phases = (Phase.PLANNED, Phase.TRAINING)
    return [job for job in zone.state.jobs.values() if job.phase in phases]
