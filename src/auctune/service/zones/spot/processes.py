"""Processes of the running jobs of a spot zone."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path

from auctune.engine.elastic.gradient_worker import WorkerSettings
from auctune.engine.messages.base import Alive
from auctune.engine.messages.spot import (
    SPOT_MESSAGES,
    BeginRun,
    EventCommitted,
    JobReady,
    RunEvent,
    SpotReply,
)
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.local import WorkerProcess
from auctune.engine.spot.job_config import (
    SPOT_JOB_CONFIG,
    WORKER,
    SpotJobConfig,
    lora_job,
)
from auctune.engine.spot.state import EventRecord
from auctune.service.config.spot import SpotConfig
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.supervisor import ProcessSupervisor
from auctune.service.zones.spot.job import SpotJobState
from auctune.service.zones.spot.supply import SpotSupply

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
            warm=entry.prefork,
            saved_every=entry.checkpoint_seconds,
            ray=entry.cluster,
        )


def _ignore(_: SpotReply) -> None:
    """Ignore a message: it is recorded where its process is known."""
