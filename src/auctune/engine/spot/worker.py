"""A gradient worker: computes one micro-batch after the other at the weights that it is sent.

As a process it is a worker of the runtime (`auctune.engine.runtime.channel`):

| to the worker | from the worker |
| --- | --- |
| compute {first, stop} + weights, if they have changed | ready {base_digest, data_digest, \
num_parameters} |
| | gradient {loss} + gradient |
| | failed {place, found, expected} |

It writes nothing to disk.

This module imports torch only to load a worker, so that a new process reacts at once.
"""

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from auctune.domain import AuctuneError
from auctune.engine.runtime.channel import Message, ParentChannel, error_record
from auctune.engine.runtime.training_lock import TrainingLock
from auctune.train.data_parallel.batches import Contribution, RowRange
from auctune.train.job import LoraJob

if TYPE_CHECKING:
    from auctune.train.data_parallel.gradients import GradientWorker

Floats32 = NDArray[np.float32]

WORKER = "auctune.engine.spot.worker"
"""Worker module; its argument is `dump_settings`."""


class SpotRunError(AuctuneError):
    """The workers of a run cannot do its work."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker loads.

    Attributes:
        base: the base model's name.
        cache: folder of bases that are built here.
        job: to train; its data are read by the worker.
        device, dtype: where and how it computes.
        threads: of torch on a CPU.
    """

    base: str
    cache: str
    job: LoraJob
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1


_SETTINGS = TypeAdapter(WorkerSettings)


def dump_settings(settings: WorkerSettings) -> Message:
    """Return settings as the argument of a process."""
    record: Message = _SETTINGS.dump_python(settings, mode="json")
    return record


def load_settings(argument: Message) -> WorkerSettings:
    """Return the settings of `dump_settings`."""
    return _SETTINGS.validate_python(argument)


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """The adapter's weights after a number of optimizer steps.

    Attributes:
        step: identifies them within a run.
        values: float32 [num_parameters]; valid until the next step.
    """

    step: int
    values: Floats32


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A worker has loaded base and data, which must be the coordinator's."""

    base_digest: str
    data_digest: str
    num_parameters: int


@dataclass(frozen=True, slots=True)
class WorkerAlive:
    """Heartbeat of a worker's process; those on Ray have none."""


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """A worker cannot use the job."""

    error: AuctuneError


@dataclass(frozen=True, slots=True)
class WorkerExited:
    """A worker is gone; its last message."""


WorkerMessage = WorkerReady | WorkerAlive | Contribution | WorkerFailed | WorkerExited


@dataclass(frozen=True, slots=True, eq=False)
class LoadedWorker:
    """A worker that has loaded base and data.

    Attributes:
        gradients: computes micro-batches.
        ready: what it has loaded.
    """

    gradients: "GradientWorker"
    ready: WorkerReady

    @classmethod
    def of(cls, gradients: "GradientWorker", base_digest: str) -> "LoadedWorker":
        """Return a worker that computes with a base of this digest."""
        facts = gradients.data_digest, gradients.num_parameters
        return cls(gradients, WorkerReady(base_digest, *facts))


@lru_cache(maxsize=1)
def load_worker(settings: WorkerSettings) -> LoadedWorker:
    """Load base and data, or return what this process or its fork server has loaded.

    Raises:
        InputError: if one of them cannot be used.
    """
    import torch

    from auctune.train.base import load_base
    from auctune.train.data_parallel.gradients import GradientWorker

    torch.set_num_threads(settings.threads)
    base = load_base(
        settings.base,
        cache=Path(settings.cache),
        device=settings.device,
        dtype=settings.dtype,
    )
    gradients = GradientWorker(base, settings.job, threads=settings.threads)
    return LoadedWorker.of(gradients, base.digest)


class GradientActor:
    """A gradient worker as an actor of a Ray cluster."""

    def __init__(self) -> None:
        self._worker: LoadedWorker | None = None
        self._step = -1

    def node_id(self) -> str:
        """Return the id of the actor's Ray node."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def load(self, settings: WorkerSettings) -> WorkerReady:
        """Load base and data.

        Raises:
            InputError: if one of them cannot be used.
        """
        self._worker = load_worker(settings)
        self._training_lock = TrainingLock(Path(settings.cache))
        return self._worker.ready

    def compute(self, values: Floats32, step: int, part: RowRange) -> Contribution:
        """Return the gradient of a micro-batch at the weights of a step.

        Raises:
            InputError: if they do not fit into memory.
        """
        assert self._worker is not None
        if step != self._step:
            self._worker.gradients.set_weights(values)
            self._step = step
        with self._training_lock.hold():
            return self._worker.gradients.compute(part)


def main(parent: ParentChannel[Any], argument: Message) -> None:
    """Run a worker; the argument is its `WorkerSettings`."""
    try:
        settings = load_settings(argument)
        worker, training_lock = load_worker(settings), TrainingLock(Path(settings.cache))
        parent.send({"kind": "ready", **asdict(worker.ready)})
        while (message := parent.inbox.get())["do"] == "compute":
            if "array" in message:
                worker.gradients.set_weights(message["array"])
            with training_lock.hold():
                result = worker.gradients.compute(RowRange(message["first"], message["stop"]))
            sums = {"loss": result.loss, "hits": result.hits}
            parent.send({"kind": "gradient", **sums, "array": result.gradient})
    except AuctuneError as error:
        parent.send({"kind": "failed", **error_record(error)})
        parent.exit(1)
