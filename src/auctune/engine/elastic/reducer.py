"""Worker that holds an elastic job's weights and optimizer: it has neither rows nor a base."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from auctune.engine.elastic.errors import serve
from auctune.engine.messages.base import Ready
from auctune.engine.messages.elastic import (
    REDUCER_MESSAGES,
    Reduce,
    Reduced,
    ReducerResponse,
    ReducerSaved,
    ReducerTask,
    StartReducer,
)
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.runtime.worker import WorkerSpec
from auctune.train.job import LoraJob

if TYPE_CHECKING:
    from auctune.train.data_parallel.reducer import Reducer

MESSAGES = REDUCER_MESSAGES
_WORKER = "auctune.engine.elastic.reducer"


@dataclass(frozen=True, slots=True)
class _Settings:
    job: LoraJob
    threads: int


_SETTINGS = TypeAdapter(_Settings)


def reducer_worker(job: LoraJob, threads: int = 1, log: Path | None = None) -> WorkerSpec:
    """Return what the reducer of a job runs; `threads` of torch."""
    argument = _SETTINGS.dump_python(_Settings(job, threads), mode="json")
    return WorkerSpec(_WORKER, argument, MESSAGES, log=log)


class ReducerWorker:
    """What the worker does.

    Args:
        job: settings of the optimizer.
        threads: of torch.
    """

    def __init__(self, job: LoraJob, threads: int) -> None:
        self._job, self._threads = job, threads
        self._reducer: Reducer | None = None

    def handle(self, request: ReducerTask) -> ReducerResponse:
        """Return the response to a request."""
        if isinstance(request, StartReducer):
            return self._start(request)
        assert self._reducer is not None
        if isinstance(request, Reduce):
            return _reduce(self._reducer, request)
        return ReducerSaved().with_checkpoint(self._reducer.capture())

    def _start(self, request: StartReducer) -> Reduced:
        import torch

        from auctune.train.data_parallel.reducer import FileReducer, PlanReducer
        from auctune.train.multilora.weights import FlatAdapter

        arrays = [torch.tensor(one) for one in request.arrays]
        values = torch.zeros(request.num_parameters) if request.names else arrays[0]
        weights = FlatAdapter(request.shapes, values, torch.zeros_like(values))
        digest = request.base_digest
        if request.counts is not None:
            self._reducer = FileReducer(self._job, request.counts, weights, digest, self._threads)
        else:
            self._reducer = PlanReducer(self._job, request.total_rows, weights, digest)
        warnings: Sequence[str] = ()
        if request.names:
            warnings = self._reducer.restore(replace(request, arrays=arrays).checkpoint())
        return _with_weights(self._reducer, points=self._reducer.curve, warnings=warnings)


def _reduce(reducer: "Reducer", request: Reduce) -> Reduced:
    from auctune.train.data_parallel.reducer import FileReducer

    add = reducer.add
    if request.is_validation:
        assert isinstance(reducer, FileReducer), "sites have no validation data of an epoch"
        add = reducer.count_validated
    for one, num_rows in zip(request.split(), request.num_rows, strict=True):
        add(one, num_rows)
    if not request.is_last:
        return Reduced(**reducer.progress())
    point = None if request.is_validation else reducer.step()
    return _with_weights(reducer, points=() if point is None else (point,))


def _with_weights(reducer: "Reducer", **fields: Any) -> Reduced:
    return Reduced(**reducer.progress(), **fields, arrays=[reducer.weights])


def main(parent: ParentChannel[Any, Any], argument: dict[str, Any]) -> None:
    """Run the worker; the argument is that of `reducer_worker`."""
    settings = _SETTINGS.validate_python(argument)
    parent.send(Ready())
    serve(parent, ReducerWorker(settings.job, settings.threads).handle)
