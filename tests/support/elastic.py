"""Elastic training within one process: workers in threads, and workers that take turns."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from auctune.engine.elastic import reducer
from auctune.engine.elastic.errors import failed_message, read_failure
from auctune.engine.elastic.gradient_worker import handle
from auctune.engine.elastic.reducer import reducer_worker
from auctune.engine.elastic.trainer import ElasticTrainer, JobFacts
from auctune.engine.messages.base import Stop, WorkerMessages
from auctune.engine.messages.elastic import GradientWorkerReady
from auctune.engine.runtime.channel import OnMessage, ParentChannel, decode, encode
from auctune.engine.runtime.requests import RequestWorker, serve
from auctune.engine.runtime.training_lock import TrainingLock
from auctune.train.base import Base
from auctune.train.data_parallel.batches import RowRange
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob
from auctune.train.multilora.weights import FlatAdapter

Work = Callable[[ParentChannel[Any, Any]], object]
"""What a worker does with the requests of its parent, until it returns."""


class ThreadWorker:
    """Handle of a worker in a thread; messages pass as frames, as those of a process."""

    pid = None

    def __init__(self, work: Work, messages: WorkerMessages, on_message: OnMessage) -> None:
        self._work, self._messages, self._on_message = work, messages, on_message
        self._parent: ParentChannel[Any, Any] = ParentChannel(self._transmit, _end)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_gone(self) -> bool:
        return not self._thread.is_alive()

    def is_lost(self) -> bool:
        return False

    def send(self, message: Any) -> None:
        requests = self._messages.requests
        self._parent.receive(decode(encode(message, requests), requests))

    def exit_reason(self) -> str:
        return "has ended"

    def request_stop(self) -> None:
        self._parent.receive(Stop())

    def stop(self, timeout: float = 30.0) -> None:
        self.kill()

    def kill(self) -> None:
        self.request_stop()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _transmit(self, message: object) -> None:
        replies = self._messages.replies
        self._on_message(decode(encode(message, replies), replies))

    def _run(self) -> None:
        self._work(self._parent)
        self._on_message(None)


def _end(code: int) -> NoReturn:
    raise SystemExit(code)


def gradient_work(worker: GradientWorker, job: LoraJob, cache: Path) -> Work:
    """Compute what is requested."""

    def work(parent: ParentChannel[Any, Any]) -> None:
        parent.send(GradientWorkerReady(base_digest=worker.base_digest))
        serve(parent, partial(handle, worker, job, TrainingLock(cache)), failed_message)

    return work


def facts_of(worker: GradientWorker) -> JobFacts:
    """Return what a worker finds of its job."""
    return JobFacts(
        base_digest=worker.base_digest,
        counts=worker.load_file().cursor.counts,
        shapes=worker.weights.shapes,
        first_weights=worker.first_weights,
        notes=worker.notes(),
    )


def new_trainer(base: Base, job: LoraJob, folder: Path, micro_batch: int) -> ElasticTrainer:
    """Return the trainer of a job, whose reducer is a thread that ends with the process."""
    worker = GradientWorker(base, job)
    if job.start_from is not None:
        worker.start_from(job.start_from)
    spec = reducer_worker(job)
    start = partial(ThreadWorker, partial(reducer.main, argument=spec.argument), spec.messages)
    return ElasticTrainer(
        job, facts_of(worker), RequestWorker(start, read_failure), folder, micro_batch
    )


def train_with(
    trainer: ElasticTrainer,
    workers: Sequence[GradientWorker],
    draw: np.random.Generator,
    *,
    deaths: float = 0.0,
    rows: int | None = None,
) -> int:
    """Train up to `rows`, or to the end; returns how many micro-batches were lost.

    Args:
        trainer: holds the job.
        workers: each computes one micro-batch at a time, at the weights it was given last.
        draw: whose turn it is to bring in its micro-batch.
        deaths: share of the micro-batches whose worker dies before it brings them in.
        rows: at which to stop.
    """
    busy: dict[int, RowRange] = {}
    lost = 0
    while not trainer.is_done and (rows is None or trainer.rows < rows):
        for number in range(len(workers)):
            if number not in busy and (part := trainer.next_micro_batch()):
                workers[number].set_weights(trainer.weights)
                busy[number] = part
        number = int(draw.choice(list(busy)))
        part = busy.pop(number)
        if draw.random() < deaths:
            trainer.requeue(part)
            lost += 1
        else:
            trainer.add_gradient(part, workers[number].compute(part))
            while trainer.advance():
                pass
    return lost


def weights_of(trainer: ElasticTrainer) -> dict[str, Tensor]:
    """Copies of the adapter's weights, by their names in the base."""
    flat = torch.tensor(trainer.weights)
    return FlatAdapter(trainer.facts.shapes, flat, flat).named(flat)


def is_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether weights agree bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
