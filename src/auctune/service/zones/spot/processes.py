"""Processes of running spot jobs: started, watched, stopped."""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from auctune.run.child import ChildProcess
from auctune.run.rental.order import PROGRAM, RentedOrder, write_order
from auctune.service.config.spot import SpotConfig
from auctune.service.zones.spot.job import SpotJobState
from auctune.service.zones.spot.supply import SpotSupply

# Time for a loading process to react to a stop; then it is killed.
_STOP_SECONDS = 20.0


class JobProcessPool:
    """Of one zone.

    Args:
        entry: settings of the zone.
        rental: what it offers.
        cache: folder of bases that are built on this machine.
        work: folder of the jobs' runs.
        logs: folder of the processes' logs.
        content: where the content of a file lies, by its id.
        lock: descriptor of a lock that they hold too; none: there is none.
        hear: told what each says, and none once it has ended; on a thread of its own.
    """

    def __init__(
        self,
        entry: SpotConfig,
        rental: SpotSupply,
        cache: Path,
        work: Path,
        logs: Path,
        content: Callable[[str], Path],
        lock: int | None,
        hear: Callable[[str, dict[str, Any] | None], None],
    ) -> None:
        self._entry = entry
        self._rental = rental
        self._cache = cache
        self._work = work
        self._logs = logs
        self._content = content
        self._lock = lock
        self._hear = hear
        self._guard = threading.Lock()
        self._running: dict[str, ChildProcess] = {}
        self._stopping: dict[str, ChildProcess] = {}
        self._began: dict[str, float] = {}

    def is_running(self, job: str) -> bool:
        """Whether a job has a process, be it one that ends."""
        with self._guard:
            return job in self._running or job in self._stopping

    def reconcile(self, wanted: Iterable[SpotJobState]) -> None:
        """Have a process for each of these jobs, and for no other."""
        jobs = {job.id: job for job in wanted}
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
        """Let go of a process that has ended; how it did, none if it was told to."""
        with self._guard:
            process = self._running.pop(job, None)
        if process is None:
            return None
        how = process.ending()
        process.kill()
        return how

    def close(self) -> None:
        """Stop all."""
        with self._guard:
            self._stopping |= self._running
            names = list(self._stopping)
            self._running.clear()
        for name in names:
            process = self._stopping.get(name)
            if process is not None:
                process.ask_to_stop()
        for name in names:
            self._stop(name)

    def _has(self, job: str) -> bool:
        return job in self._running or job in self._stopping

    def _start(self, job: SpotJobState) -> None:
        folder = self._work / job.id
        write_order(self._order(job), folder)
        self._logs.mkdir(parents=True, exist_ok=True)
        self._began[job.id] = time.monotonic()
        process = ChildProcess(
            PROGRAM,
            str(folder),
            lambda message: self._hear(job.id, self._timed(job.id, message)),
            lock=self._lock,
            log=self._logs / f"{self._entry.name}.log",
        )
        with self._guard:
            self._running[job.id] = process

    def _timed(self, job: str, message: dict[str, Any] | None) -> dict[str, Any] | None:
        """A message that says that a process can train, with the seconds since it was started."""
        if message is None or message["kind"] != "ready":
            return message
        return {**message, "seconds": time.monotonic() - self._began[job]}

    def _stop(self, job: str) -> None:
        with self._guard:
            process = self._stopping.get(job)
        if process is None:
            return
        process.stop(_STOP_SECONDS)
        with self._guard:
            self._stopping.pop(job, None)

    def _order(self, job: SpotJobState) -> RentedOrder:
        entry, rental, training = self._entry, self._rental, job.training
        seen = rental.market.seen(job.first - 1)
        validation = training.validation
        return RentedOrder(
            job=job.terms,
            policy=job.policy,
            forecast=job.forecast,
            training=training.settings(),
            data=str(self._content(training.data)),
            validation=None if validation is None else str(self._content(validation)),
            base=entry.base_source,
            device=entry.device,
            dtype=entry.dtype,
            threads=entry.worker_threads,
            cache=str(self._cache),
            micro_batch=min(entry.micro_batch, training.batch_size),
            trace=rental.market.trace(job.first, job.terms.deadline + 1),
            seen={"price": seen.price.tolist(), "available": seen.available.tolist()},
            begins=rental.clock.slot_start(job.first),
            slot_seconds=rental.clock.slot_seconds,
            market_slot_seconds=entry.replayed_seconds,
            cap=float(job.meter.cap) / job.unit_price,
            warm=entry.prefork,
            saved_every=entry.checkpoint_seconds,
            ray=None if entry.cluster is None else entry.cluster.to_record(),
        )
