"""Worker that holds an elastic job's weights and optimizer: it has neither rows nor a base.

| to the worker | from the worker |
| --- | --- |
| begin {base_digest, num_parameters, counts and parameters, or total_rows} + weights; or also \
{names, state} + tensors of a checkpoint | begun {curve, warnings, ...} + weights |
| reduce {SUMS, is_last} + the gradient of each micro-batch, in their order | reduced {...}; with \
the last ones of a batch {point, ...} + weights after its step |
| validated {SUMS, is_last} | counted {...}; with the last ones of an epoch + weights |
| save | saved {names, state} + tensors |

Gradients and weights are float32 [num_parameters]. SUMS are losses, hits, num_targets, num_tokens
and num_rows of micro-batches; `...` is `Reducer.progress`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from auctune.engine.elastic.contributions import read_contributions
from auctune.engine.elastic.errors import Verbs, serve
from auctune.engine.runtime.channel import Message, ParentChannel
from auctune.engine.runtime.worker import WorkerSpec
from auctune.train.checkpoint import Checkpoint
from auctune.train.data_parallel.batches import Contribution
from auctune.train.job import LoraJob
from auctune.train.row_cursor import DataCounts

if TYPE_CHECKING:
    from auctune.train.data_parallel.reducer import Reducer

_WORKER = "auctune.engine.elastic.reducer"


@dataclass(frozen=True, slots=True)
class _Settings:
    job: LoraJob
    threads: int


_SETTINGS = TypeAdapter(_Settings)


def reducer_worker(job: LoraJob, threads: int = 1, log: Path | None = None) -> WorkerSpec:
    """Return what the reducer of a job runs; `threads` of torch."""
    argument: Message = _SETTINGS.dump_python(_Settings(job, threads), mode="json")
    return WorkerSpec(_WORKER, argument, log=log)


def checkpoint_record(checkpoint: Checkpoint) -> Message:
    """Return a checkpoint, whose tensors are arrays, as messages have it."""
    shown = {"names": list(checkpoint.tensors), "state": checkpoint.state}
    arrays = [np.asarray(one).reshape(-1) for one in checkpoint.tensors.values()]
    return {**shown, "arrays": arrays}


def read_checkpoint(message: Mapping[str, Any], arrays: Sequence[Any]) -> Checkpoint:
    """Return the checkpoint of a message, whose arrays are these."""
    return Checkpoint(dict(zip(message["names"], arrays, strict=True)), message["state"])


class ReducerVerbs:
    """The worker's verbs.

    Args:
        job: settings of the optimizer.
        threads: of torch.
    """

    def __init__(self, job: LoraJob, threads: int) -> None:
        self._job, self._threads = job, threads
        self._reducer: Reducer | None = None

    @property
    def by_name(self) -> Verbs:
        """The verbs."""
        return {
            "begin": self.begin,
            "reduce": self.reduce,
            "validated": self.validated,
            "save": self.save,
        }

    def begin(self, message: Message) -> Message:
        """Go on from a checkpoint, or begin with weights."""
        import torch

        from auctune.train.data_parallel.reducer import FileReducer, PlanReducer
        from auctune.train.multilora.optimizer import FlatAdapter

        arrays = [torch.tensor(one) for one in message["arrays"]]
        has_checkpoint = "names" in message
        shapes = {name: tuple(shape) for name, shape in message.get("parameters", ())}
        values = torch.zeros(message["num_parameters"]) if has_checkpoint else arrays[0]
        weights = FlatAdapter(shapes, values, torch.zeros_like(values))
        digest = message["base_digest"]
        if "counts" in message:
            counts = DataCounts(**message["counts"])
            self._reducer = FileReducer(self._job, counts, weights, digest, self._threads)
        else:
            self._reducer = PlanReducer(self._job, message["total_rows"], weights, digest)
        warnings: Sequence[str] = ()
        if has_checkpoint:
            warnings = self._reducer.restore(read_checkpoint(message, arrays))
        return {
            "kind": "begun",
            "curve": self._reducer.curve,
            "warnings": warnings,
            **self._with_weights(self._reducer),
        }

    def reduce(self, message: Message) -> Message:
        """Add gradients up in their order, and take a step at the end of a batch."""
        assert self._reducer is not None
        for one, num_rows in _contributions(message):
            self._reducer.add(one, num_rows)
        if not message["is_last"]:
            return {"kind": "reduced", **self._reducer.progress()}
        point = self._reducer.step()
        return {"kind": "reduced", "point": point, **self._with_weights(self._reducer)}

    def validated(self, message: Message) -> Message:
        """Count rows of the validation data, in their order."""
        from auctune.train.data_parallel.reducer import FileReducer

        reducer = self._reducer
        assert isinstance(reducer, FileReducer), "sites have no validation data of an epoch"
        for one, num_rows in _contributions(message):
            reducer.count_validated(one, num_rows)
        if not message["is_last"]:
            return {"kind": "counted", **reducer.progress()}
        # The end of an epoch may go back to the weights of an earlier one.
        return {"kind": "counted", **self._with_weights(reducer)}

    def save(self, _: Message) -> Message:
        """Return all that training goes on from."""
        assert self._reducer is not None
        found = self._reducer.capture()
        arrays = {name: tensor.numpy() for name, tensor in found.tensors.items()}
        return {"kind": "saved", **checkpoint_record(Checkpoint(arrays, found.state))}

    def _with_weights(self, reducer: "Reducer") -> Message:
        return {**reducer.progress(), "arrays": [reducer.weights]}


def _contributions(message: Message) -> Iterator[tuple[Contribution, int]]:
    """Return the micro-batches of a message, and the rows of each."""
    return zip(read_contributions(message), message["num_rows"], strict=True)


def main(parent: ParentChannel[Any], argument: Message) -> None:
    """Run the worker; the argument is that of `reducer_worker`."""
    settings = _SETTINGS.validate_python(argument)
    parent.send({"kind": "ready"})
    serve(parent, ReducerVerbs(settings.job, settings.threads).by_name)
