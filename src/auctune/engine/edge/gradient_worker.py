"""Worker at a site: gradients of a job's micro-batches on the chunks that it was sent.

| to the worker | from the worker |
| --- | --- |
| load {chunks, has_validation} + each chunk, and rows to measure by | loaded {sizes, \
num_validation_rows} |
| begin + an archive of the adapter to start from, if there is one | begun + weights before the \
first step |
| compute {parts} + weights | gradients {losses, hits, num_targets} + the gradient of each part |
| validate {first, count} + weights | validated {loss, hits, num_targets} |
| export + weights | exported {names} + the content of each file |

First it sends ready {base_digest}. Weights and gradients are float32 [num_parameters]. Nothing else
of a row leaves it than gradients, losses and counts.
"""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from auctune.engine.edge.errors import failed_message, serve
from auctune.engine.edge.inputs import EdgeTraining
from auctune.engine.edge.site_store import load_rows
from auctune.engine.runtime.channel import Message, ParentChannel
from auctune.engine.runtime.worker import WorkerSpec
from auctune.train.data_parallel.batches import ChunkRows

if TYPE_CHECKING:
    from auctune.train.data_parallel.chunk_worker import ChunkWorker

_WORKER = "auctune.engine.edge.gradient_worker"
_TRAINING = TypeAdapter(EdgeTraining)


def gradient_worker(training: EdgeTraining, device: str) -> WorkerSpec:
    """Return what a worker of a job runs."""
    argument = {"training": dump_training(training), "device": device}
    return WorkerSpec(_WORKER, argument, device)


def dump_training(training: EdgeTraining) -> Message:
    """Return how a job trains as the argument of a worker."""
    record: Message = _TRAINING.dump_python(training, mode="json")
    return record


def load_training(record: Mapping[str, Any]) -> EdgeTraining:
    """Return what `dump_training` wrote."""
    return _TRAINING.validate_python(record)


def main(parent: ParentChannel[Any], argument: Message) -> None:
    """Run the worker; the argument has its `training` and `device`."""
    try:
        worker = _load(load_training(argument["training"]), argument["device"])
    except Exception as error:
        parent.send(failed_message(error))
        parent.exit(1)
    parent.send({"kind": "ready", "base_digest": worker.base_digest})
    verbs = {"load": _load_chunks, "begin": _begin, "compute": _compute}
    verbs |= {"validate": _validate, "export": _export}
    serve(parent, {name: partial(verb, worker) for name, verb in verbs.items()})


def _load(training: EdgeTraining, device: str) -> "ChunkWorker":
    # Only who trains needs torch and transformers.
    import torch

    from auctune.train.base import load_base
    from auctune.train.data_parallel.chunk_worker import ChunkWorker

    torch.set_num_threads(training.threads)
    base = load_base(training.base, cache=Path(training.cache), device=device, dtype=training.dtype)
    return ChunkWorker(
        base,
        training.config,
        threads=training.threads,
        gradient_checkpointing=training.gradient_checkpointing,
    )


def _load_chunks(worker: "ChunkWorker", message: Message) -> Message:
    data = [load_rows(content) for content in message.get("arrays", ())]
    validation = data.pop() if message["has_validation"] else None
    sizes = worker.load(dict(zip(message["chunks"], data, strict=True)), validation)
    return {
        "kind": "loaded",
        "sizes": list(sizes.items()),
        "num_validation_rows": worker.num_validation_rows,
    }


def _begin(worker: "ChunkWorker", message: Message) -> Message:
    if message["arrays"]:
        with tempfile.NamedTemporaryFile(suffix=".zip") as file:
            file.write(message["arrays"][0].tobytes())
            file.flush()
            worker.start_from(Path(file.name))
    return {"kind": "begun", "arrays": [worker.first_weights]}


def _compute(worker: "ChunkWorker", message: Message) -> Message:
    worker.set_weights(message["arrays"][0])
    found = [worker.compute(ChunkRows(*part)) for part in message["parts"]]
    return {
        "kind": "gradients",
        "losses": [one.loss for one in found],
        "hits": [one.hits for one in found],
        "num_targets": [one.num_targets for one in found],
        "arrays": [one.gradient for one in found],
    }


def _validate(worker: "ChunkWorker", message: Message) -> Message:
    worker.set_weights(message["arrays"][0])
    found = worker.validate(message["first"], message["count"])
    return {
        "kind": "validated",
        "loss": found.loss,
        "hits": found.hits,
        "num_targets": found.num_targets,
    }


def _export(worker: "ChunkWorker", message: Message) -> Message:
    worker.set_weights(message["arrays"][0])
    files = worker.export()
    arrays = [np.frombuffer(content, np.uint8) for content in files.values()]
    return {"kind": "exported", "names": list(files), "arrays": arrays}
