"""The workers of a run, and the micro-batches that they compute.

Each worker computes one micro-batch at a time, and gets the next when it has delivered that one, so
faster workers do more. The micro-batch of a worker that exits goes to another.
"""

import queue
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from auctune.engine.spot.provider import Instance
from auctune.engine.spot.worker import (
    SpotRunError,
    Weights,
    WorkerAlive,
    WorkerExited,
    WorkerFailed,
    WorkerMessage,
    WorkerReady,
)
from auctune.train.data_parallel.batches import Contribution, RowRange
from auctune.train.data_parallel.trainer import ElasticTrainer

# A worker that takes longer for one micro-batch is stuck, and is killed. So is one that is not
# ready and sends no heartbeat for so long: to load a large base may take any time.
STUCK_SECONDS = 600.0


@dataclass(eq=False)
class _PooledWorker:
    instance: Instance
    # When it was started or sent its micro-batch; until it is ready, its last heartbeat.
    since: float
    ready: bool = False
    part: RowRange | None = None

    @property
    def is_busy(self) -> bool:
        return self.part is not None or not self.ready


@dataclass
class PollResult:
    """What happened during a poll of the pool.

    Attributes:
        ready: instances whose workers became ready.
        delivered: instances whose workers delivered a micro-batch.
        exited: instances whose workers exited; they are no longer in the pool.
    """

    ready: list[Instance] = field(default_factory=list)
    delivered: list[Instance] = field(default_factory=list)
    exited: list[Instance] = field(default_factory=list)


class WorkerPool:
    """All workers of a trainer.

    Args:
        trainer: whose micro-batches they compute.
        base_digest: of its base, which theirs must equal.
        stuck_seconds: how long a worker may take for one micro-batch, and for a heartbeat until it
            is ready.
        now: monotonic clock.
    """

    def __init__(
        self,
        trainer: ElasticTrainer,
        base_digest: str,
        stuck_seconds: float = STUCK_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trainer = trainer
        self._expected = WorkerReady(base_digest, trainer.data_digest, trainer.values.size)
        self._stuck_seconds, self._now = stuck_seconds, now
        self._workers: dict[str, _PooledWorker] = {}
        self._inbox: queue.SimpleQueue[tuple[_PooledWorker, WorkerMessage]] = queue.SimpleQueue()

    @property
    def instances(self) -> list[Instance]:
        """All instances, the oldest first."""
        return [worker.instance for worker in self._workers.values()]

    @property
    def ready(self) -> list[Instance]:
        """Instances whose workers can compute."""
        return [worker.instance for worker in self._workers.values() if worker.ready]

    def add(self, instance: Instance) -> None:
        """Use the worker of an instance from now on."""
        worker = _PooledWorker(instance, self._now())
        self._workers[instance.id] = worker
        instance.worker.start(partial(self._put, worker))

    def remove(self, instance: Instance) -> None:
        """Drop the worker of an instance, if it is in the pool, and requeue its micro-batch."""
        worker = self._workers.pop(instance.id, None)
        if worker is not None and worker.part is not None:
            self._trainer.requeue(worker.part)

    def poll(self, seconds: float) -> PollResult:
        """Send micro-batches to idle workers, and wait at most `seconds` for one message.

        Raises:
            SpotRunError: if a worker computes something else than the trainer.
            InputError: if a worker cannot use the job.
        """
        result = PollResult()
        self._send_parts()
        with suppress(queue.Empty):
            worker, message = self._inbox.get(timeout=seconds)
            if self._workers.get(worker.instance.id) is worker:
                self._on_message(worker, message, result)
        self._kill_stuck()
        return result

    def _put(self, worker: _PooledWorker, message: WorkerMessage) -> None:
        self._inbox.put((worker, message))

    def _on_message(
        self, worker: _PooledWorker, message: WorkerMessage, result: PollResult
    ) -> None:
        match message:
            case WorkerReady():
                self._check(worker.instance, message)
                worker.ready = True
                result.ready.append(worker.instance)
            case WorkerAlive():
                if not worker.ready:
                    worker.since = self._now()
            case Contribution():
                assert worker.part is not None
                part, worker.part = worker.part, None
                result.delivered.append(worker.instance)
                self._trainer.add_gradient(part, message)
            case WorkerFailed(error):
                raise error
            case WorkerExited():
                self.remove(worker.instance)
                result.exited.append(worker.instance)

    def _check(self, instance: Instance, ready: WorkerReady) -> None:
        for name in ("base_digest", "data_digest", "num_parameters"):
            found, expected = getattr(ready, name), getattr(self._expected, name)
            if found != expected:
                raise SpotRunError(f"{instance.id}: {name} is {found!r} there, {expected!r} here")

    def _send_parts(self) -> None:
        for worker in list(self._workers.values()):
            if worker.is_busy:
                continue
            part = self._trainer.next_micro_batch()
            if part is None:
                return
            worker.part, worker.since = part, self._now()
            weights = Weights(self._trainer.step, self._trainer.values)
            worker.instance.worker.compute(part, weights)

    def _kill_stuck(self) -> None:
        """Kill workers that have taken too long; their exit is a message as any other."""
        now = self._now()
        for worker in self._workers.values():
            if worker.is_busy and now - worker.since > self._stuck_seconds:
                worker.instance.worker.kill()
