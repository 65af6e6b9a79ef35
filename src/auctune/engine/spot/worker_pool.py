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

from auctune.engine.runtime.channel import Message, read_error
from auctune.engine.spot.provider import Instance
from auctune.engine.spot.worker import Floats32, GradientMessage, GradientReady, SpotRunError
from auctune.train.data_parallel.batches import Contribution, RowRange
from auctune.train.data_parallel.trainer import ElasticTrainer

# A worker that takes longer for one micro-batch is stuck, and is killed. So is one that is not
# ready and sends no heartbeat for so long: to load a large base may take any time.
STUCK_SECONDS = 600.0


@dataclass(eq=False)
class _PooledWorker:
    instance: Instance
    # When it was started or sent its micro-batch; until it is ready, its last message.
    since: float
    ready: bool = False
    part: RowRange | None = None
    # Of the weights that it was sent last.
    step: int = -1

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
        self._expected = GradientReady(
            kind="ready",
            base_digest=base_digest,
            data_digest=trainer.data_digest,
            num_parameters=trainer.values.size,
        )
        self._stuck_seconds, self._now = stuck_seconds, now
        self._workers: dict[str, _PooledWorker] = {}
        # Those that were sent last, and their step.
        self._weights: tuple[int, Floats32 | None] = (-1, None)
        self._inbox: queue.SimpleQueue[tuple[_PooledWorker, GradientMessage | None]] = (
            queue.SimpleQueue()
        )

    @property
    def instances(self) -> list[Instance]:
        """All instances, the oldest first."""
        return [worker.instance for worker in self._workers.values()]

    @property
    def ready(self) -> list[Instance]:
        """Instances whose workers can compute."""
        return [worker.instance for worker in self._workers.values() if worker.ready]

    def add(self, instance: Instance) -> None:
        """Start the worker of an instance.

        Raises:
            SpotRunError: if it cannot be started.
        """
        worker = _PooledWorker(instance, self._now())
        self._workers[instance.id] = worker
        instance.start(partial(self._put, worker))

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

    def _put(self, worker: _PooledWorker, message: GradientMessage | None) -> None:
        self._inbox.put((worker, message))

    def _on_message(
        self, worker: _PooledWorker, message: GradientMessage | None, result: PollResult
    ) -> None:
        if message is None:
            self.remove(worker.instance)
            result.exited.append(worker.instance)
            return
        if not worker.ready and message["kind"] != "missing":
            worker.since = self._now()
        match message["kind"]:
            case "ready":
                self._check(worker.instance, message)
                worker.ready = True
                result.ready.append(worker.instance)
            case "gradient":
                assert worker.part is not None
                part, worker.part = worker.part, None
                result.delivered.append(worker.instance)
                (gradient,) = message["arrays"]
                sums = gradient, message["loss"], message["hits"]
                self._trainer.add_gradient(part, Contribution(*sums))
            case "failed":
                raise read_error(message, SpotRunError)

    def _check(self, instance: Instance, ready: GradientReady) -> None:
        for (name, found), expected in zip(ready.items(), self._expected.values(), strict=True):
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
            message: Message = {"do": "compute", "first": part.first, "stop": part.stop}
            if worker.step != self._trainer.step:
                worker.step, message["arrays"] = self._trainer.step, [self._current_weights()]
            worker.instance.send(message)

    def _current_weights(self) -> Floats32:
        """Return the weights of the current step: one array for all workers, never changed."""
        step, weights = self._weights
        if weights is None or step != self._trainer.step:
            weights = self._trainer.values.copy()
            self._weights = self._trainer.step, weights
        return weights

    def _kill_stuck(self) -> None:
        """Kill workers that have taken too long; their exit is a message as any other."""
        now = self._now()
        for worker in self._workers.values():
            if worker.is_busy and now - worker.since > self._stuck_seconds:
                worker.instance.kill()
