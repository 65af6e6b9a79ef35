"""Processes of the running jobs of a spot zone."""

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.local import WorkerProcess
from auctune.engine.spot.job_config import WORKER, SpotJobConfig, SpotMessage, write_config
from auctune.service.config.spot import SpotConfig
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.supervisor import ProcessSupervisor
from auctune.service.zones.spot.job import SpotJobState
from auctune.service.zones.spot.supply import SpotSupply


class NewSlots:
    """Progress of a job: returns whether a message reports a slot for the first time.

    After each start a process reports all slots of its log again.
    """

    def __init__(self) -> None:
        self._newest = -1

    def __call__(self, message: SpotMessage) -> bool:
        if message["kind"] not in ("slot", "slot_done", "overtime"):
            return False
        if message["slot"] <= self._newest:
            return False
        self._newest = message["slot"]
        return True


class JobProcessPool:
    """Processes of a zone's running jobs, each with a supervisor.

    `on_message` is called with a job and each message of its process, on a thread of the process.
    """

    def __init__(
        self,
        entry: SpotConfig,
        supply: SpotSupply,
        dependencies: ZoneDependencies,
        on_message: Callable[[str, SpotMessage], None],
    ) -> None:
        self._entry = entry
        self._supply = supply
        self._dirs = dependencies.dirs
        self._content = dependencies.files.blobs.path
        self._lock = dependencies.lock
        self._on_message = on_message
        self._guard = threading.Lock()
        self._running: dict[str, ProcessSupervisor] = {}
        self._stopping: dict[str, ProcessSupervisor] = {}
        # Newest states of the running jobs.
        self._jobs: dict[str, SpotJobState] = {}

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
                    partial(self._on_message, name),
                    NewSlots(),
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
        folder = self._dirs.work(self._entry.name) / name
        write_config(self._config(job), folder)

        def add_seconds(message: SpotMessage | None) -> None:
            if message is not None and message["kind"] == "ready":
                message["seconds"] = time.monotonic() - started_at
            on_message(message)

        return WorkerProcess(
            WORKER,
            str(folder),
            add_seconds,
            lock=self._lock,
            log=self._dirs.logs / f"{self._entry.name}.log",
            fork=True,
            niceness=self._entry.niceness,
        )

    def _config(self, job: SpotJobState) -> SpotJobConfig:
        entry, supply, training = self._entry, self._supply, job.training
        history = supply.market.history(job.first - 1)
        validation, start = training.validation, training.start_from
        return SpotJobConfig(
            job=job.terms,
            policy=job.policy,
            forecast=job.forecast,
            training=training.hyperparameters(),
            data=str(self._content(training.data)),
            validation=None if validation is None else str(self._content(validation)),
            base=entry.base_source,
            device=entry.device,
            dtype=entry.dtype,
            threads=entry.worker_threads,
            gradient_checkpointing=entry.gradient_checkpointing,
            cache=str(self._dirs.cache),
            micro_batch=min(entry.micro_batch, training.batch_size),
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
            start_from=None if start is None else str(self._content(start)),
            start_digest=training.start_digest,
        )
