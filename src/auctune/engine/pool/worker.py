"""Worker process of an open pool: loads the base once, then trains quanta until it is stopped.

It follows the protocol of auctune.engine.pool.process. Its log is the truth of what was trained:
what its owner has not recorded is sent again.
"""

import queue
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from auctune.domain import AuctuneError, InputError
from auctune.engine.event_log import EventLog
from auctune.engine.pool.clock import WallClock
from auctune.engine.pool.epoch import PoolParams
from auctune.engine.pool.events import (
    VERSION,
    OpenPoolDirectory,
    PoolStarted,
    PoolUpdate,
    event_record,
    read_event,
)
from auctune.engine.pool.pool import OpenPool
from auctune.engine.pool.process import (
    MAX_STEP_QUANTA,
    DesiredJobs,
    PoolMessage,
    PoolSettings,
    read_reconcile,
)
from auctune.engine.runtime.channel import ParentChannel, error_record
from auctune.engine.runtime.training_lock import TrainingLock
from auctune.engine.unix_time import unix_time
from auctune.timeshare.estimators.mixture import Mixture
from auctune.timeshare.named import make_allocator
from auctune.timeshare.play import play
from auctune.timeshare.thread import LearningThread, LossCurve
from auctune.train.base import load_base
from auctune.train.job import LoraJob
from auctune.train.preemptible import LoraJobFactory, PreemptibleLoraJob
from auctune.train.reproducible import deterministic, prepare_deterministic
from auctune.train.tiny import tiny_folder

# How often deadlines are checked that pass while no job trains.
_IDLE_SECONDS = 1.0


class LoraJobs:
    """Job factory whose settings are the fields of `LoraJob`, without its id and schedule.

    Args:
        factory: of jobs that share a base model.
        beside: folder that paths of data start from.
    """

    def __init__(self, factory: LoraJobFactory, beside: Path) -> None:
        self._factory, self._beside = factory, beside

    def make(self, job: str, settings: Mapping[str, Any]) -> PreemptibleLoraJob:
        values = dict(settings)
        for name in values.keys() & {"data", "start_from"}:
            values[name] = self._beside / values[name]
        values["target_modules"] = tuple(values.get("target_modules", ()))
        try:
            lora_job = LoraJob(id=job, schedule="constant", **values)
        except TypeError as error:
            raise InputError("settings", str(error), "settings of a job") from None
        # The trainer's own checkpoints are never written: the pool writes the jobs'.
        return self._factory.make(lora_job, self._beside / "none")

    def release(self, job: str) -> None:
        self._factory.release(job)


class PoolWorker:
    """Runs an open pool for its owner.

    Args:
        settings: of the pool.
        parent: the owner.
    """

    def __init__(self, settings: PoolSettings, parent: ParentChannel[PoolMessage]) -> None:
        self._settings, self._parent = settings, parent
        cache = Path(settings.cache)
        prepare_deterministic()
        if settings.base == "tiny":
            what = "building the tiny base (once on this machine)"
            tiny_folder(
                cache,
                progress=lambda share: parent.send(
                    {"kind": "preparing", "what": what, "share": share}
                ),
            )
        base = load_base(settings.base, cache=cache, device=settings.device, dtype=settings.dtype)
        self._digest = base.digest
        self._training_lock = TrainingLock(cache)
        max_step_seconds = MAX_STEP_QUANTA * settings.quantum_seconds
        factory = LoraJobFactory(base, max_step_seconds, settings.gradient_checkpointing)
        self._jobs = LoraJobs(factory, Path(settings.folder))

    def run(self) -> None:
        """Train until it is stopped.

        Raises:
            InputError: if another process has its directory, or its log is damaged.
            JobFailedError: if the code of a job raises an error: the job has left, and the process
                is to be restarted.
        """
        settings, parent = self._settings, self._parent
        directory = OpenPoolDirectory(Path(settings.folder))
        with (
            directory.open(resume=directory.has_started),
            closing(EventLog(directory.event_log)) as log,
            deterministic(threads=settings.threads),
        ):
            params = _params(settings)
            _load_kernels(params)
            seconds = settings.quantum_seconds
            clock = WallClock(seconds, settings.epoch, parent.stop_requested, now=unix_time)
            started = PoolStarted(VERSION, params.allocator.name)
            pool = OpenPool(params, self._jobs, clock, directory, log, started, self._send)
            parent.send({"kind": "ready", "base_digest": self._digest})
            for number, record in enumerate(log.events, start=1):
                if number > settings.after:
                    self._send(PoolUpdate(number, read_event(record)))
            pool.restore()
            self._train(pool)

    def _train(self, pool: OpenPool) -> None:
        newest, reconciled = None, None
        while newest is None and not self._parent.stop_requested.is_set():
            newest = self._newest(_IDLE_SECONDS)
        while newest is not None and not self._parent.stop_requested.is_set():
            desired, seq = newest
            is_complete = pool.reconcile(desired)
            if seq != reconciled:
                self._parent.send({"kind": "reconciled", "seq": seq})
                reconciled = seq
            with self._training_lock.hold():
                has_trained = pool.run_quantum()
            idle_seconds = 0.0 if has_trained or not is_complete else _IDLE_SECONDS
            newest = self._newest(idle_seconds) or newest

    def _newest(self, seconds: float) -> tuple[DesiredJobs, int] | None:
        """Return the newest `reconcile` message, or None if none came within so many seconds."""
        found: tuple[DesiredJobs, int] | None = None
        try:
            while True:
                message = self._parent.inbox.get(block=seconds > 0, timeout=seconds)
                if message["do"] == "reconcile":
                    found = read_reconcile(message)
                seconds = 0.0
        except queue.Empty:
            return found

    def _send(self, update: PoolUpdate) -> None:
        outlooks = {one.id: {"finish": one.finish, "status": one.status} for one in update.outlooks}
        event = event_record(update.event)
        self._parent.send(
            {"kind": "event", "number": update.number, "event": event, "outlooks": outlooks}
        )


def _params(settings: PoolSettings) -> PoolParams:
    return PoolParams(
        allocator=make_allocator(settings.allocator),
        estimator=Mixture(),
        quantum_seconds=settings.quantum_seconds,
        memory_bytes=settings.memory_bytes,
        cpu_threads=settings.threads,
    )


def _load_kernels(params: PoolParams) -> None:
    """Compile the kernels of allocator and estimator now, and not in the first jobs' time."""
    curve = LossCurve(np.array([1.0, 500.0]), np.array([9.0, 0.5]))
    threads = [LearningThread(name, 0, 30, 0.6) for name in ("one", "other")]
    play(params.allocator, threads, [curve] * 2, [8.0] * 2)
    bank = params.estimator.start_bank(1)
    bank.observe(np.array([8.0]), np.array([2.0]), np.array([True]))
    bank.needs(np.array([1.0]))


def main(parent: ParentChannel[PoolMessage], argument: dict[str, Any]) -> None:
    """Run a pool; the argument is its `PoolSettings`."""
    try:
        PoolWorker(PoolSettings(**argument), parent).run()
    except AuctuneError as error:
        parent.send({"kind": "failed", **error_record(error)})
        parent.exit(1)
