"""Worker of an elastic job: gradients of micro-batches at the weights that it is sent.

Nothing else of a row leaves it than gradients, losses and counts, and it keeps nothing on disk.

This module imports torch only to load a worker, so that a new process reacts at once.
"""

import json
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from auctune.domain import AuctuneError
from auctune.domain.dataset import DataSet, RowKind
from auctune.engine.elastic.errors import failed_message
from auctune.engine.messages.base import Array, Arrays, Stop
from auctune.engine.messages.elastic import (
    GRADIENT_MESSAGES,
    AdapterInitialized,
    ChunksLoaded,
    Compute,
    Computed,
    Export,
    Exported,
    FileLoaded,
    GradientReply,
    GradientRequest,
    GradientResponse,
    GradientWorkerReady,
    InitializeAdapter,
    LoadChunks,
    LoadFile,
    Validate,
)
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.runtime.requests import serve
from auctune.engine.runtime.training_lock import TrainingLock
from auctune.engine.runtime.worker import WorkerSpec
from auctune.train.job import LoraJob

if TYPE_CHECKING:
    from auctune.train.data_parallel.gradient_worker import GradientWorker

MESSAGES = GRADIENT_MESSAGES
Parent = ParentChannel[GradientReply, GradientRequest | Stop]

WORKER = "auctune.engine.elastic.gradient_worker"
"""Worker module; its argument is that of `gradient_worker`."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker loads.

    Attributes:
        base: the base model's name.
        cache: folder of bases that are built here.
        job: to train; its files are read only where it has them.
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
    gradient_checkpointing: int = 0


_SETTINGS = TypeAdapter(WorkerSettings)


def gradient_worker(
    settings: WorkerSettings, log: Path | None = None, *, fork: bool = True
) -> WorkerSpec:
    """Return what a worker runs; `log` and `fork` as of `WorkerSpec`."""
    argument = _SETTINGS.dump_python(settings, mode="json")
    return WorkerSpec(WORKER, argument, MESSAGES, settings.device, log, fork=fork)


@lru_cache(maxsize=1)
def load_worker(settings: WorkerSettings) -> "GradientWorker":
    """Load the base, or return what this process or its fork server has loaded.

    Raises:
        InputError: if it cannot be used.
    """
    import torch

    from auctune.train.base import load_base
    from auctune.train.data_parallel.gradient_worker import GradientWorker

    torch.set_num_threads(settings.threads)
    base = load_base(
        settings.base,
        cache=Path(settings.cache),
        device=settings.device,
        dtype=settings.dtype,
    )
    return GradientWorker(
        base,
        settings.job,
        threads=settings.threads,
        gradient_checkpointing=settings.gradient_checkpointing,
    )


def preload(argument: dict[str, Any]) -> None:
    """Load what a worker of these settings needs; called in the fork server."""
    settings = _SETTINGS.validate_python(argument)
    # The state of torch's threads does not survive a fork: then each worker loads. So it does if
    # something cannot be loaded, and says why.
    if settings.threads == 1:
        with suppress(AuctuneError):
            load_worker(settings).load_file()


def dump_rows(data: DataSet) -> Array:
    """Return rows as JSON, uint8 [bytes]."""
    return np.frombuffer(json.dumps([data.kind, data.rows]).encode(), np.uint8)


def load_rows(content: Array) -> DataSet:
    """Return the rows that `dump_rows` wrote."""
    kind, rows = json.loads(content.tobytes())
    return DataSet(RowKind(kind), tuple(rows))


def main(parent: Parent, argument: dict[str, Any]) -> None:
    """Run a worker."""
    settings = _SETTINGS.validate_python(argument)
    try:
        worker = load_worker(settings)
    except Exception as error:
        parent.send(failed_message(error))
        parent.exit(1)
    parent.send(GradientWorkerReady(base_digest=worker.base_digest))
    lock = TrainingLock(Path(settings.cache))
    serve(parent, partial(handle, worker, settings.job, lock), failed_message)


def handle(
    worker: "GradientWorker", job: LoraJob, lock: TrainingLock, request: GradientRequest
) -> GradientResponse:
    """Return the response to a request."""
    if isinstance(request, Compute | Validate | Export) and request.arrays:
        worker.set_weights(request.arrays[0])
    match request:
        case LoadFile():
            counts = worker.load_file().cursor.counts
            return FileLoaded(counts=counts, notes=worker.notes())
        case LoadChunks():
            return _load_chunks(worker, request)
        case InitializeAdapter(arrays=arrays):
            _initialize(worker, job, arrays)
            shapes = worker.weights.shapes
            return AdapterInitialized(shapes=shapes, arrays=[worker.first_weights])
        case Compute(parts=parts):
            with lock.hold():
                return Computed().with_contributions([worker.compute(part) for part in parts])
        case Validate(first=first, count=count):
            with lock.hold():
                return Computed().with_contributions([worker.validate(first, count)])
        case Export(metrics=metrics):
            files = worker.export(metrics)
            arrays = [np.frombuffer(content, np.uint8) for content in files.values()]
            return Exported(names=list(files), arrays=arrays)


def _load_chunks(worker: "GradientWorker", request: LoadChunks) -> ChunksLoaded:
    data = [load_rows(content) for content in request.arrays]
    validation = data.pop() if request.has_validation else None
    sizes = worker.load_chunks(dict(zip(request.chunks, data, strict=True)), validation)
    return ChunksLoaded(sizes=sizes, num_validation_rows=worker.num_validation_rows)


def _initialize(worker: "GradientWorker", job: LoraJob, archives: Arrays) -> None:
    if archives:
        with tempfile.NamedTemporaryFile(suffix=".zip") as file:
            file.write(archives[0].tobytes())
            file.flush()
            worker.start_from(Path(file.name))
    elif job.start_from is not None:
        worker.start_from(job.start_from)
