"""Worker of an elastic job: gradients of micro-batches at the weights that it is sent.

| to the worker | from the worker |
| --- | --- |
| load_file | file {counts, notes} |
| load {chunks, has_validation} + each chunk, and rows to measure by | loaded {sizes, \
num_validation_rows} |
| begin + an archive of the adapter to start from, if it is not in a file here; references of \
pairs are computed with it | begun {parameters} + weights before the first step |
| compute {parts} + weights, if they have changed | gradients {losses, hits, num_targets, \
num_tokens} + the gradient of each part |
| validate {first, count} + weights | validated {loss, hits, num_targets} |
| export {metrics} + weights | exported {names} + the content of each file |

First it sends ready {base_digest}. Weights and gradients are float32 [num_parameters]. Nothing else
of a row leaves it than gradients, losses and counts, and it keeps nothing on disk.

This module imports torch only to load a worker, so that a new process reacts at once.
"""

import json
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from auctune.domain import AuctuneError
from auctune.domain.dataset import DataSet, RowKind
from auctune.domain.epoch_metrics import EpochMetrics
from auctune.engine.elastic.contributions import contributions_record
from auctune.engine.elastic.errors import Verbs, failed_message, serve
from auctune.engine.runtime.channel import Message, ParentChannel
from auctune.engine.runtime.training_lock import TrainingLock
from auctune.engine.runtime.worker import WorkerSpec
from auctune.train.data_parallel.batches import ChunkRows, RowRange
from auctune.train.job import LoraJob

if TYPE_CHECKING:
    from auctune.train.data_parallel.gradient_worker import GradientWorker

Array = NDArray[Any]
"""An array of a message: float32 or uint8, of one dimension."""

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
    argument: Message = _SETTINGS.dump_python(settings, mode="json")
    return WorkerSpec(WORKER, argument, settings.device, log, fork=fork)


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


def preload(argument: Message) -> None:
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


def main(parent: ParentChannel[Any], argument: Message) -> None:
    """Run a worker."""
    settings = _SETTINGS.validate_python(argument)
    try:
        worker = load_worker(settings)
    except Exception as error:
        parent.send(failed_message(error))
        parent.exit(1)
    parent.send({"kind": "ready", "base_digest": worker.base_digest})
    lock = TrainingLock(Path(settings.cache))
    serve(parent, gradient_verbs(worker, settings.job, lock))


def gradient_verbs(worker: "GradientWorker", job: LoraJob, lock: TrainingLock) -> Verbs:
    """Return the verbs of a worker, by name."""
    return {
        "load_file": partial(_load_file, worker),
        "load": partial(_load_chunks, worker),
        "begin": partial(_begin, worker, job),
        "compute": partial(_compute, worker, lock),
        "validate": partial(_validate, worker, lock),
        "export": partial(_export, worker),
    }


def _load_file(worker: "GradientWorker", _: Message) -> Message:
    counts = worker.load_file().cursor.counts
    return {"kind": "file", "counts": asdict(counts), "notes": worker.notes()}


def _load_chunks(worker: "GradientWorker", message: Message) -> Message:
    data = [load_rows(content) for content in message.get("arrays", ())]
    validation = data.pop() if message["has_validation"] else None
    sizes = worker.load_chunks(dict(zip(message["chunks"], data, strict=True)), validation)
    return {
        "kind": "loaded",
        "sizes": list(sizes.items()),
        "num_validation_rows": worker.num_validation_rows,
    }


def _begin(worker: "GradientWorker", job: LoraJob, message: Message) -> Message:
    if archives := message.get("arrays"):
        with tempfile.NamedTemporaryFile(suffix=".zip") as file:
            file.write(archives[0].tobytes())
            file.flush()
            worker.start_from(Path(file.name))
    elif job.start_from is not None:
        worker.start_from(job.start_from)
    return {
        "kind": "begun",
        "parameters": list(worker.weights.shapes.items()),
        "arrays": [worker.first_weights],
    }


def _compute(worker: "GradientWorker", lock: TrainingLock, message: Message) -> Message:
    _take_weights(worker, message)
    parts = [RowRange(*one) if len(one) == 2 else ChunkRows(*one) for one in message["parts"]]
    with lock.hold():
        found = [worker.compute(part) for part in parts]
    return {"kind": "gradients", **contributions_record(found)}


def _validate(worker: "GradientWorker", lock: TrainingLock, message: Message) -> Message:
    _take_weights(worker, message)
    with lock.hold():
        found = worker.validate(message["first"], message["count"])
    return {
        "kind": "validated",
        "loss": found.loss,
        "hits": found.hits,
        "num_targets": found.num_targets,
    }


def _export(worker: "GradientWorker", message: Message) -> Message:
    _take_weights(worker, message)
    metrics = message.get("metrics")
    files = worker.export(None if metrics is None else EpochMetrics(**metrics))
    arrays = [np.frombuffer(content, np.uint8) for content in files.values()]
    return {"kind": "exported", "names": list(files), "arrays": arrays}


def _take_weights(worker: "GradientWorker", message: Message) -> None:
    if arrays := message.get("arrays"):
        worker.set_weights(arrays[0])
