"""The workers of a run, and the micro-batches that they compute.

Each worker computes one micro-batch at a time, and gets the next when it has delivered that one, so
faster workers do more. The micro-batch of a worker that exits goes to another.
"""

import queue
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from auctune.engine.elastic.errors import SlotError, read_failure
from auctune.engine.elastic.trainer import ElasticTrainer
from auctune.engine.messages.elastic import Compute, Computed, FileLoaded, LoadFile
from auctune.engine.runtime.requests import STUCK_SECONDS, RequestWorker, WorkerEndedError
from auctune.engine.spot.provider import Instance, SpotRunError
from auctune.train.data_parallel.batches import RowRange
from auctune.train.row_cursor import DataCounts


@dataclass(eq=False)
class _PooledWorker:
    instance: Instance
    requests: RequestWorker
    is_ready: bool = False
    part: RowRange | None = None
    # When it was sent its micro-batch.
    since: float = 0.0
    # Of the weights that it was sent last.
    step: int = -1

    @property
    def is_idle(self) -> bool:
        return self.is_ready and self.part is None


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
        trainer: whose micro-batches they compute; what they find of its job must be the same.
        stuck_seconds: how long a worker may take for one micro-batch, and for a heartbeat until it
            is ready, as to load a large base may take any time; then it is killed.
        now: monotonic clock.
    """

    def __init__(
        self,
        trainer: ElasticTrainer,
        stuck_seconds: float = STUCK_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trainer = trainer
        self._stuck_seconds, self._now = stuck_seconds, now
        self._workers: dict[str, _PooledWorker] = {}
        self._answers: queue.SimpleQueue[tuple[_PooledWorker, Future[Any]]] = queue.SimpleQueue()

    @property
    def instances(self) -> list[Instance]:
        """All instances, the oldest first."""
        return [worker.instance for worker in self._workers.values()]

    @property
    def ready(self) -> list[Instance]:
        """Instances whose workers can compute."""
        return [worker.instance for worker in self._workers.values() if worker.is_ready]

    def add(self, instance: Instance) -> None:
        """Start the worker of an instance.

        Raises:
            SpotRunError: if it cannot be started.
        """
        worker = _PooledWorker(instance, RequestWorker(instance.start, read_failure, self._now))
        self._workers[instance.id] = worker
        self._request(worker, LoadFile())

    def remove(self, instance: Instance) -> None:
        """Drop the worker of an instance, if it is in the pool, and requeue its micro-batch."""
        worker = self._workers.pop(instance.id, None)
        if worker is not None and worker.part is not None:
            self._trainer.requeue(worker.part)

    def poll(self, seconds: float) -> PollResult:
        """Send micro-batches to idle workers, and wait at most `seconds` for one answer.

        Raises:
            SpotRunError: if a worker computes something else than the trainer.
            InputError: if a worker cannot use the job.
        """
        result = PollResult()
        self._send_parts()
        with suppress(queue.Empty):
            worker, answer = self._answers.get(timeout=seconds)
            if self._workers.get(worker.instance.id) is worker:
                self._take(worker, answer, result)
        for worker in list(self._workers.values()):
            # Of others there is an answer, if only that it has ended.
            if worker.is_idle and worker.requests.has_ended:
                self._drop(worker, result)
        self._kill_stuck()
        return result

    @property
    def idle(self) -> list[tuple[str, RequestWorker]]:
        """Workers that are ready and compute nothing, by the ids of their instances."""
        return [(name, one.requests) for name, one in self._workers.items() if one.is_idle]

    def _request(self, worker: _PooledWorker, request: LoadFile | Compute) -> None:
        answer = worker.requests.request(request)
        answer.add_done_callback(lambda done: self._answers.put((worker, done)))

    def _take(self, worker: _PooledWorker, answer: Future[Any], result: PollResult) -> None:
        try:
            message: FileLoaded | Computed = answer.result()
        except WorkerEndedError:
            self._drop(worker, result)
            return
        except SlotError:
            # What it wrote is in the log of workers.
            worker.instance.kill()
            self._drop(worker, result)
            return
        if isinstance(message, FileLoaded):
            self._check(worker, message.counts)
            worker.is_ready = True
            result.ready.append(worker.instance)
            return
        assert worker.part is not None
        part, worker.part = worker.part, None
        result.delivered.append(worker.instance)
        self._trainer.add_gradient(part, *message.split())

    def _drop(self, worker: _PooledWorker, result: PollResult) -> None:
        self.remove(worker.instance)
        result.exited.append(worker.instance)

    def _check(self, worker: _PooledWorker, counts: DataCounts) -> None:
        facts = self._trainer.facts
        found = {"base_digest": worker.requests.ready.base_digest, **asdict(counts)}
        expected = {"base_digest": facts.base_digest, **asdict(facts.counts)}
        for name, here in expected.items():
            if (there := found[name]) != here:
                raise SpotRunError(
                    f"{worker.instance.id}: {name} is {there!r} there, {here!r} here"
                )

    def _send_parts(self) -> None:
        for worker in self._workers.values():
            if not worker.is_idle:
                continue
            part = self._trainer.next_micro_batch()
            if part is None:
                return
            worker.part, worker.since = part, self._now()
            has_weights = worker.step == self._trainer.step
            worker.step = self._trainer.step
            arrays = () if has_weights else (self._trainer.weights,)
            self._request(worker, Compute(parts=[part], arrays=arrays))

    def _kill_stuck(self) -> None:
        """Kill workers that have taken too long; their exit is a message as any other."""
        now = self._now()
        for worker in self._workers.values():
            if worker.is_idle:
                continue
            since = worker.since if worker.is_ready else worker.requests.last_message_at
            if now - since > self._stuck_seconds:
                worker.instance.kill()
