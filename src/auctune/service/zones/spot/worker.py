"""Background worker of a spot zone: processes of jobs, their messages, slots.

A job's process rents and trains by itself, and has each event of its run recorded in the zone's log
before it acts on it. A process that is started again is given these events.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path

import orjson
import structlog

from auctune.domain import InputError, round_money
from auctune.engine.elastic.gradient_worker import WorkerSettings
from auctune.engine.journal import JOURNAL, read_journal
from auctune.engine.messages.base import Alive, Failed
from auctune.engine.messages.spot import (
    SPOT_MESSAGES,
    BeginRun,
    CapReached,
    EventCommitted,
    JobReady,
    JobWarning,
    RunEvent,
    SpotReply,
)
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.local import WorkerProcess
from auctune.engine.spot.job import SpotFolder
from auctune.engine.spot.job_config import SPOT_JOB_CONFIG, WORKER, SpotJobConfig, lora_job
from auctune.engine.spot.state import EventRecord
from auctune.service.config.spot import SpotConfig
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.job import SLOWER_THAN_SOLD, Phase
from auctune.service.zones.core.worker import ProcessSupervisor, ZoneDependencies, ZoneWorker
from auctune.service.zones.spot.state import CAP_REACHED, ProcessReady, SpotEventType, SpotJobState
from auctune.service.zones.spot.zone import SpotSupply, SpotZone

CHECKPOINT_SECONDS = 30.0
"""Between checkpoints within a slot; there is always one at its end."""

OnSpotMessage = Callable[[str, SpotReply], Future[bool]]
"""Records a message of a job's process; returns whether the job is still open, once it is on disk.
"""


def run_folder(work: Path) -> Path:
    """Return the folder of a job's run (`SpotFolder`), in the job's work folder."""
    return work / "run"


def _begins_slot(message: SpotReply) -> bool:
    """Return whether a message is that of a slot that begins: its process makes progress."""
    types = ("slot", "slot_skipped", "overtime")
    return isinstance(message, RunEvent) and message.event["type"] in types


class JobProcessPool:
    """Processes of a zone's running jobs, each with a supervisor.

    Args:
        entry: settings of the zone.
        supply: what the zone offers.
        dependencies: what all zones share.
        on_ready: called with a job once its process is ready, and the seconds that it took, on a
            thread of the process.
        on_message: called there with a job and each other message of its process.
        read_events: returns the recorded events of a job's run.
    """

    def __init__(
        self,
        entry: SpotConfig,
        supply: SpotSupply,
        dependencies: ZoneDependencies,
        on_ready: Callable[[str, float], object],
        on_message: OnSpotMessage,
        read_events: Callable[[str], list[EventRecord]],
    ) -> None:
        self._entry = entry
        self._supply = supply
        self._dirs = dependencies.dirs
        self._content = dependencies.files.blobs.path
        self._lock = dependencies.lock
        self._on_ready, self._on_message = on_ready, on_message
        self._read_events = read_events
        self._guard = threading.Lock()
        self._running: dict[str, ProcessSupervisor] = {}
        self._stopping: dict[str, ProcessSupervisor] = {}
        # Newest states of the running jobs.
        self._jobs: dict[str, SpotJobState] = {}
        # Of jobs whose newest event is being recorded.
        self._unrecorded: dict[str, Future[bool]] = {}

    def is_running(self, job: str) -> bool:
        """Return whether a job has a process, even one that is being stopped."""
        with self._guard:
            return job in self._running or job in self._stopping

    def reconcile(self, desired: Iterable[SpotJobState]) -> dict[str, str]:
        """Start and stop processes until exactly these jobs have one; for one thread.

        Returns:
            How the processes of jobs ended that are in a crash loop.
        """
        self._jobs = {job.id: job for job in desired}
        with self._guard:
            unwanted = {name: self._running.pop(name) for name in self._running.keys() - self._jobs}
            self._stopping |= unwanted
            for name in self._jobs.keys() - self._running.keys() - self._stopping.keys():
                self._running[name] = ProcessSupervisor(
                    partial(self._launch, name),
                    _ignore,
                    _begins_slot,
                    zone=self._entry.name,
                    job=name,
                )
        for name in unwanted:
            threading.Thread(target=self._stop, args=(name,), daemon=True).start()
        for supervisor in list(self._running.values()):
            supervisor.poll()
        return {
            name: supervisor.last_exit
            for name, supervisor in self._running.items()
            if supervisor.is_crash_looping
        }

    def close(self) -> None:
        """Stop all processes."""
        self.reconcile(())
        with self._guard:
            stopping = list(self._stopping.values())
        for supervisor in stopping:
            supervisor.stop()

    def _stop(self, job: str) -> None:
        self._stopping[job].stop()
        with self._guard:
            del self._stopping[job]

    def _launch(self, name: str, on_message: OnMessage) -> WorkerProcess:
        job, started_at = self._jobs[name], time.monotonic()
        if (unrecorded := self._unrecorded.get(name)) is not None:
            # An earlier process sent it as it ended.
            wait([unrecorded])
        events = self._read_events(name)

        def receive(message: SpotReply | None) -> None:
            if isinstance(message, JobReady):
                self._on_ready(name, time.monotonic() - started_at)
            elif message is not None and not isinstance(message, Alive):
                recorded = self._on_message(name, message)
                if isinstance(message, RunEvent):
                    self._unrecorded[name] = recorded
                    recorded.add_done_callback(acknowledge)
            on_message(message)

        def acknowledge(recorded: Future[bool]) -> None:
            # The process sends the next event only when it knows.
            self._unrecorded.pop(name, None)
            # Otherwise the service ends, and its processes with it.
            if recorded.exception() is None:
                process.send(EventCommitted(is_open=recorded.result()))

        process = WorkerProcess(
            WORKER,
            SPOT_JOB_CONFIG.dump_python(self._config(job), mode="json"),
            receive,
            SPOT_MESSAGES,
            lock=self._lock,
            log=self._dirs.logs / f"{self._entry.name}.log",
            fork=True,
            niceness=self._entry.niceness,
        )
        # It sends nothing that is answered before.
        process.send(BeginRun(events=events))
        return process

    def _config(self, job: SpotJobState) -> SpotJobConfig:
        entry, supply, training = self._entry, self._supply, job.training
        history = supply.market.history(job.first - 1)
        validation, start = training.validation, training.start_from
        workers = WorkerSettings(
            base=entry.base_source,
            cache=str(self._dirs.cache.resolve()),
            job=lora_job(
                training.hyperparameters(),
                data=self._content(training.data),
                validation=None if validation is None else self._content(validation),
                start_from=None if start is None else self._content(start),
                start_digest=training.start_digest,
            ),
            device=entry.device,
            dtype=entry.dtype,
            threads=entry.worker_threads,
            gradient_checkpointing=entry.gradient_checkpointing,
        )
        return SpotJobConfig(
            job=job.terms,
            policy=job.policy,
            forecast=job.forecast,
            workers=workers,
            micro_batch=min(entry.micro_batch, training.batch_size),
            folder=run_folder(self._dirs.work(entry.name) / job.id),
            trace=supply.market.trace(job.first, job.terms.deadline + 1),
            history={
                "price": history.price.tolist(),
                "available": history.available.tolist(),
            },
            begins=supply.clock.slot_start(job.first),
            slot_seconds=supply.clock.slot_seconds,
            market_slot_seconds=entry.replayed_seconds,
            cap=float(job.meter.cap) / job.unit_price,
            saved_every=CHECKPOINT_SECONDS,
            ray=entry.cluster,
        )


def _ignore(_: SpotReply) -> None:
    """Ignore a message: it is recorded where its process is known."""


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
