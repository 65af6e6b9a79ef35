"""A gradient worker: computes one micro-batch after the other at the weights that it is sent.

It is a worker of the runtime (`auctune.engine.runtime.channel`):

| to the worker | from the worker |
| --- | --- |
| compute {first, stop} + weights, if they have changed | ready {base_digest, data_digest, \
num_parameters} |
| | gradient {loss} + gradient |
| | failed {place, found, expected} |

It writes nothing to disk.

This module imports torch only to load a worker, so that a new process reacts at once.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from auctune.domain import AuctuneError
from auctune.engine.runtime.channel import (
    Alive,
    Failed,
    Message,
    ParentChannel,
    Preparing,
    error_record,
)
from auctune.engine.runtime.messages import Missing, Started
from auctune.engine.runtime.training_lock import TrainingLock
from auctune.train.data_parallel.batches import RowRange
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
        gradient_checkpointing: as of `GradientWorker`.
    """

    base: str
    cache: str
    job: LoraJob
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    gradient_checkpointing: bool = False


_SETTINGS = TypeAdapter(WorkerSettings)


def dump_settings(settings: WorkerSettings) -> Message:
    """Return settings as the argument of a process."""
    record: Message = _SETTINGS.dump_python(settings, mode="json")
    return record


def load_settings(argument: Message) -> WorkerSettings:
    """Return the settings of `dump_settings`."""
    return _SETTINGS.validate_python(argument)


class GradientReady(TypedDict):
    """A worker has loaded base and data, which must be the coordinator's."""

    kind: Literal["ready"]
    base_digest: str
    data_digest: str
    num_parameters: int


class GradientComputed(TypedDict):
    """A micro-batch's loss and hits, and its gradient, float32 [num_parameters], in `arrays`."""

    kind: Literal["gradient"]
    loss: float
    hits: int
    arrays: list[Floats32]


GradientMessage = Alive | Started | Preparing | Missing | Failed | GradientReady | GradientComputed


@dataclass(frozen=True, slots=True, eq=False)
class LoadedWorker:
    """A worker that has loaded base and data.

    Attributes:
        gradients: computes micro-batches.
        ready: says what it has loaded.
    """

    gradients: "GradientWorker"
    ready: GradientReady

    @classmethod
    def of(cls, gradients: "GradientWorker", base_digest: str) -> "LoadedWorker":
        """Return a worker that computes with a base of this digest."""
        ready = GradientReady(
            kind="ready",
            base_digest=base_digest,
            data_digest=gradients.data_digest,
            num_parameters=gradients.num_parameters,
        )
        return cls(gradients, ready)


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
    gradients = GradientWorker(
        base,
        settings.job,
        threads=settings.threads,
        gradient_checkpointing=settings.gradient_checkpointing,
    )
    return LoadedWorker.of(gradients, base.digest)


def preload(argument: Message) -> None:
    """Load what a worker of these settings needs; called in the fork server."""
    settings = load_settings(argument)
    # The state of torch's threads does not survive a fork: then each worker loads. So it does if
    # something cannot be loaded, and says why.
    if settings.threads == 1:
        with suppress(AuctuneError):
            load_worker(settings)


def main(parent: ParentChannel[GradientMessage], argument: Message) -> None:
    """Run a worker; the argument is its `WorkerSettings`."""
    try:
        settings = load_settings(argument)
        worker, training_lock = load_worker(settings), TrainingLock(Path(settings.cache))
        parent.send(worker.ready)
        while (message := parent.inbox.get())["do"] == "compute":
            if "arrays" in message:
                worker.gradients.set_weights(message["arrays"][0])
            with training_lock.hold():
                result = worker.gradients.compute(RowRange(message["first"], message["stop"]))
            parent.send(
                {
                    "kind": "gradient",
                    "loss": result.loss,
                    "hits": result.hits,
                    "arrays": [result.gradient],
                }
            )
    except AuctuneError as error:
        parent.send({"kind": "failed", **error_record(error)})
        parent.exit(1)
