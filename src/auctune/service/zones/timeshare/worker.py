"""Background worker of a timeshare zone: the process that trains its pool of jobs."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from auctune.device_profile import Profile
from auctune.domain import Money
from auctune.engine.pool.events import OpenPoolDirectory, read_event
from auctune.engine.pool.process import (
    DesiredJob,
    DesiredStatus,
    PoolMessage,
    PoolProcess,
    PoolSettings,
)
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.messages import adapter_folder
from auctune.service.jobs.device_limits import step_seconds
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.supervisor import ProcessSupervisor
from auctune.service.zones.core.worker import ZoneWorker
from auctune.service.zones.timeshare.job import TimeshareJob
from auctune.service.zones.timeshare.pool import on_event
from auctune.service.zones.timeshare.zone import TimeshareZone

# Not settings of a job in a pool: it trains until its target, and keeps its best training loss.
_UNUSED_SETTINGS = ("epochs", "schedule", "warmup_ratio", "patience")


class TimeshareWorker(ZoneWorker[TimeshareZone]):
    """Worker of a timeshare zone: one supervised process, the pool, trains all jobs.

    Args:
        actor: actor of the zone.
        clock: slots of the zone, which are the pool's units.
        profile: profile of the pool's device, by which the speed of a job is estimated.
        settings: settings of the process; `after` is set at each start.
        dependencies: what all zones share.
    """

    poll_seconds: ClassVar[float] = 1.0

    def __init__(
        self,
        actor: ZoneActor[TimeshareZone],
        clock: SlotClock,
        profile: Profile,
        settings: PoolSettings,
        dependencies: ZoneDependencies,
    ) -> None:
        self._directory = OpenPoolDirectory(Path(settings.folder))
        super().__init__(actor, clock, self._directory.results, dependencies)
        self._profile, self._settings = profile, settings
        self._supervisor = ProcessSupervisor(
            self._launch, self._on_message, _is_progress, zone=actor.name
        )
        self._process: PoolProcess | None = None
        self._log_offset = 0
        # The jobs that the pool was sent last, and the newest event that they followed from.
        self._sent: tuple[DesiredJob, ...] | None = None
        self._sent_seq = 0

    async def _stop_processes(self) -> None:
        await asyncio.to_thread(self._supervisor.stop)

    async def _run_slot(self) -> None:
        self._log_offset = await self._actor.call(lambda zone: zone.state.journal_offset)
        if await asyncio.to_thread(self._supervisor.poll):
            self._sent = None
        desired, seq, cancelled = await self._actor.call(self._desired_jobs)
        is_new = desired != self._sent or cancelled > self._sent_seq
        if is_new and self._process is not None:
            self._process.reconcile(desired, seq)
            self._sent, self._sent_seq = desired, seq
        if self._supervisor.is_crash_looping:
            await self._actor.call(_fail_overdue)

    def _is_running(self, job: str) -> bool:
        # The pool does not use the results that it has written.
        return False

    def _result_folder(self, job: TimeshareJob) -> Path | None:
        assert job.departure is not None
        return (
            None if job.departure.best is None else adapter_folder(self._directory.result(job.id))
        )

    def _launch(self, on_message: OnMessage) -> PoolProcess:
        settings = replace(self._settings, after=self._log_offset)
        log = self._logs / f"{self._actor.name}.log"
        self._process = PoolProcess(settings, on_message, lock=self._lock, log=log)
        return self._process

    def _on_message(self, message: PoolMessage) -> None:
        """Handle a message of the pool, on a thread of its process."""
        if message["kind"] == "reconciled":
            seq = message["seq"]
            self._post(lambda zone: zone.settle_dropped(seq))
        elif message["kind"] == "event":
            number, outlooks = message["number"], message["outlooks"]
            event = read_event(message["event"])
            self._post(lambda zone: on_event(zone, number, event, outlooks))

    def _desired_jobs(self, zone: TimeshareZone) -> tuple[tuple[DesiredJob, ...], int, int]:
        """Return the jobs that the pool should run, and the newest event and cancellation."""
        state = zone.state
        jobs = [job for job in state.jobs.values() if job.phase is not Phase.TRAINED]
        cancelled = max((one.seq for one in state.cancelled.values()), default=0)
        return tuple(self._desired_job(job, zone.price) for job in jobs), state.seq, cancelled

    def _desired_job(self, job: TimeshareJob, price: Money) -> DesiredJob:
        training = job.training.hyperparameters()
        settings = {key: value for key, value in training.items() if key not in _UNUSED_SETTINGS}
        settings["target_modules"] = list(settings["target_modules"])
        settings["data"] = self._relative_path(job.training.data)
        if job.training.start_from is not None:
            settings["start_from"] = self._relative_path(job.training.start_from)
            settings["start_digest"] = job.training.start_digest
        status = DesiredStatus.PAUSED if job.phase is Phase.PAUSED else DesiredStatus.RUNNING
        if job.is_cap_reached and price:
            status = DesiredStatus.STOPPED
        return DesiredJob(
            id=job.id,
            deadline=job.deadline_unit,
            threshold=job.target_loss,
            settings=settings,
            batches_per_quantum=self._clock.slot_seconds
            / step_seconds(job.training, job.size, self._profile),
            status=status,
        )

    def _relative_path(self, file: str) -> str:
        """Return the path of a file's content from the pool's folder: both may be moved."""
        return os.path.relpath(self._files.blobs.path(file), self._directory.root)


def _is_progress(message: PoolMessage) -> bool:
    return message["kind"] == "event" and message["event"]["type"] == "quantum"


def _fail_overdue(zone: TimeshareZone) -> None:
    """Fail jobs whose deadlines pass without a pool; cancelled jobs are charged no more."""
    zone.settle_dropped(zone.state.seq)
    for job in list(zone.state.jobs.values()):
        if job.departure is None and job.deadline_unit <= zone.clock.slot():
            zone.fail(job.id, "service_failed", "the pool could not be run", None)
