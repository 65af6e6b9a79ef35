"""Worker that holds an elastic job's weights and optimizer: it has neither rows nor a base."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from auctune.engine.elastic.errors import failed_message
from auctune.engine.messages.base import Ready, Stop
from auctune.engine.messages.elastic import (
    REDUCER_MESSAGES,
    Added,
    CountValidated,
    Reduce,
    Reduced,
    ReducerReply,
    ReducerRequest,
    ReducerResponse,
    ReducerSaved,
    SaveReducer,
    StartReducer,
)
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.runtime.requests import serve
from auctune.engine.runtime.worker import WorkerSpec
from auctune.train.job import CurvePoint, LoraJob

if TYPE_CHECKING:
    from auctune.train.data_parallel.reducer import Reducer

MESSAGES = REDUCER_MESSAGES
Parent = ParentChannel[ReducerReply, ReducerRequest | Stop]

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
    """Handles the requests of a reducer's parent.

    Args:
        job: settings of the optimizer.
        threads: of torch.
    """

    def __init__(self, job: LoraJob, threads: int) -> None:
        self._job, self._threads = job, threads
        self._reducer: Reducer | None = None

    def handle(self, request: ReducerRequest) -> ReducerResponse:
        """Return the response to a request."""
        match request:
            case StartReducer():
                return self._start(request)
            case Reduce():
                return _reduce(self._started, request)
            case CountValidated():
                return _count_validated(self._started, request)
            case SaveReducer():
                return ReducerSaved().with_checkpoint(self._started.capture())

    @property
    def _started(self) -> "Reducer":
        assert self._reducer is not None, "it is started first"
        return self._reducer

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
        return _reduced(self._reducer, self._reducer.curve, warnings)


def _reduce(reducer: "Reducer", request: Reduce) -> Added | Reduced:
    for one, num_rows in zip(request.split(), request.num_rows, strict=True):
        reducer.add(one, num_rows)
    if not request.is_last:
        return Added()
    point = reducer.step()
    return _reduced(reducer, () if point is None else (point,))


def _count_validated(reducer: "Reducer", request: CountValidated) -> Added | Reduced:
    from auctune.train.data_parallel.reducer import FileReducer

    assert isinstance(reducer, FileReducer), "sites have no validation data of an epoch"
    for one, num_rows in zip(request.split(), request.num_rows, strict=True):
        reducer.count_validated(one, num_rows)
    return _reduced(reducer) if request.is_last else Added()


def _reduced(
    reducer: "Reducer", points: Sequence[CurvePoint] = (), warnings: Sequence[str] = ()
) -> Reduced:
    weights = [reducer.weights]
    return Reduced(progress=reducer.progress(), points=points, warnings=warnings, arrays=weights)


def main(parent: Parent, argument: dict[str, Any]) -> None:
    """Run the worker; the argument is that of `reducer_worker`."""
    settings = _SETTINGS.validate_python(argument)
    parent.send(Ready())
    serve(parent, ReducerWorker(settings.job, settings.threads).handle, failed_message)
