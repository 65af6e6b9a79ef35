"""Processes of the running jobs of a spot zone."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from auctune.run.runtime.local import WorkerProcess
from auctune.run.spot.job_config import WORKER, SpotJobConfig, write_config
from auctune.service.config.spot import SpotConfig
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.spot.job import SpotJobState
from auctune.service.zones.spot.supply import SpotSupply

# A process that is loading takes some time to react to a stop; then it is killed.
_STOP_SECONDS = 20.0


class JobProcessPool:
    """Processes of a zone's running jobs; for use by several threads.

    `on_message` is called with a job and each message of its process, then None once the process
    has ended; on a thread of the process.
    """

    def __init__(
        self,
        entry: SpotConfig,
        supply: SpotSupply,
        dependencies: ZoneDependencies,
        on_message: Callable[[str, dict[str, Any] | None], None],
    ) -> None:
        self._entry = entry
        self._supply = supply
        self._dirs = dependencies.dirs
        self._content = dependencies.files.blobs.path
        self._lock = dependencies.lock
        self._on_message = on_message
        self._guard = threading.Lock()
        self._running: dict[str, WorkerProcess] = {}
        self._stopping: dict[str, WorkerProcess] = {}
        self._started_at: dict[str, float] = {}

    def is_running(self, job: str) -> bool:
        """Return whether a job has a process, even one that is being stopped."""
        with self._guard:
            return self._has(job)

    def reconcile(self, desired: Iterable[SpotJobState]) -> None:
        """Start and stop processes until exactly these jobs have one."""
        jobs = {job.id: job for job in desired}
        with self._guard:
            unwanted = [name for name in self._running if name not in jobs]
            for name in unwanted:
                self._stopping[name] = self._running.pop(name)
            missing = [job for name, job in jobs.items() if not self._has(name)]
        for name in unwanted:
            threading.Thread(target=self._stop, args=(name,), daemon=True).start()
        for job in missing:
            self._start(job)

    def reap(self, job: str) -> str | None:
        """Release an ended process; return how it ended, or None if it was stopped."""
        with self._guard:
            process = self._running.pop(job, None)
        if process is None:
            return None
        how = process.exit_reason()
        process.kill()
        return how

    def close(self) -> None:
        with self._guard:
            self._stopping |= self._running
            names = list(self._stopping)
            self._running.clear()
        for name in names:
            process = self._stopping.get(name)
            if process is not None:
                process.request_stop()
        for name in names:
            self._stop(name)

    def _has(self, job: str) -> bool:
        return job in self._running or job in self._stopping

    def _start(self, job: SpotJobState) -> None:
        folder = self._dirs.work(self._entry.name) / job.id
        write_config(self._config(job), folder)
        self._started_at[job.id] = time.monotonic()
        process = WorkerProcess(
            WORKER,
            str(folder),
            lambda message: self._on_message(job.id, self._timed(job.id, message)),
            lock=self._lock,
            log=self._dirs.logs / f"{self._entry.name}.log",
            fork=True,
        )
        with self._guard:
            self._running[job.id] = process

    def _timed(self, job: str, message: dict[str, Any] | None) -> dict[str, Any] | None:
        """Add to a "ready" message how many seconds the process took to start."""
        if message is None or message["kind"] != "ready":
            return message
        return {**message, "seconds": time.monotonic() - self._started_at[job]}

    def _stop(self, job: str) -> None:
        with self._guard:
            process = self._stopping.get(job)
        if process is None:
            return
        process.stop(_STOP_SECONDS)
        with self._guard:
            self._stopping.pop(job, None)

    def _config(self, job: SpotJobState) -> SpotJobConfig:
        entry, supply, training = self._entry, self._supply, job.training
        history = supply.market.history(job.first - 1)
        validation = training.validation
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
        )
