"""Overheads of changes of the number of workers of an elastic job.

    python benchmarks/elastic.py [--slot-seconds N]

| what | how |
| --- | --- |
| start of a worker | until it is ready, on the tiny base; cold: a new interpreter; warm: forked by a process that has loaded everything |
| mu_1, mu_2 | a run of six real slots on the tiny base with cold workers, one and two alternately; also converted to slots of 30 minutes |
| round trip | of weights to a worker and a gradient back, for an adapter of rank 8 on GPT-2 small (random weights); and the time of its micro-batch of 4 x 128 tokens |
"""  # noqa: E501

import argparse
import multiprocessing
import queue
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from auctune.engine.elastic.gradient_worker import WORKER, WorkerSettings, gradient_worker
from auctune.engine.messages.base import Ready
from auctune.engine.messages.elastic import GRADIENT_MESSAGES, Compute
from auctune.engine.runtime.channel import decode, encode
from auctune.engine.runtime.local import start_fork_server, start_worker
from auctune.engine.runtime.worker import WorkerSpec
from auctune.engine.spot.clock import WallClock
from auctune.engine.spot.job import SpotFolder, SpotRunConfig, train_job
from auctune.engine.spot.overhead import MeasuredOverhead, measure_overhead
from auctune.engine.spot.provider import LocalProvider
from auctune.engine.spot.state import EventRecord, OvertimeStarted, SpotEvent, SpotRunState
from auctune.engine.spot.traces import MarketTrace
from auctune.spot import SpotAllocation, SpotJob, SpotMarket, SpotObservation
from auctune.train.base import load_base
from auctune.train.data_parallel.batches import RowRange
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob
from random_bases import random_gpt2_small

LONG_SLOT_SECONDS = 1800.0
COUNTS = (1, 2, 1, 2, 1, 2)


@dataclass(frozen=True)
class AlternatingPolicy:
    """Policy that acquires `COUNTS` spot instances."""

    name: str = "alternating"
    horizon: int = 0

    def start(self, job: SpotJob) -> "AlternatingPolicy":
        return self

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        return SpotAllocation(0, COUNTS[observation.slot])


@dataclass
class MemoryLog:
    """A `RunLog` of a run that nobody resumes."""

    events: list[EventRecord] = field(default_factory=list)

    def append(self, event: EventRecord) -> None:
        self.events.append(event)


def make_job(folder: Path, tokens: int, epochs: int = 1) -> LoraJob:
    """Return a job whose rows have `tokens` tokens each."""
    data = folder / f"rows-{tokens}.jsonl"
    text = "one two three four " * tokens
    data.write_text(f'{{"text": "{text}"}}\n' * 100)
    return LoraJob(id="job", data=data, epochs=epochs, batch_size=4, max_length=tokens)


def seconds_to_start(spec: WorkerSpec, repeats: int = 3) -> float:
    """Return the median seconds from a start until the worker is ready."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        worker = start_worker(spec, messages.put)
        while not isinstance(messages.get(), Ready):
            """It is alive."""
        seconds.append(time.perf_counter() - start)
        worker.kill()
    return statistics.median(seconds)


class DeadlineReached(Exception):  # noqa: N818
    """Ends a run at the deadline of its job, which is too long to finish."""


def stop_at_deadline(event: SpotEvent) -> None:
    if isinstance(event, OvertimeStarted):
        raise DeadlineReached


def measure_run(folder: Path, slot_seconds: float) -> MeasuredOverhead:
    """Return the overheads of a run with alternating numbers of workers."""
    job = SpotJob(workload=1e6, deadline=len(COUNTS), n_max=2)
    training = make_job(folder, 32, epochs=100_000)
    workers = WorkerSettings(base="tiny", cache=str(folder), job=training)
    config = SpotRunConfig(job=job, workers=workers, micro_batch=4)
    market = SpotMarket(np.full(len(COUNTS), 0.3), np.full(len(COUNTS), 2))
    place, log = SpotFolder(folder / "run"), MemoryLog()
    place.state.mkdir(parents=True)
    with suppress(DeadlineReached):
        train_job(
            config,
            AlternatingPolicy(),
            LocalProvider(MarketTrace.of_slots(market)),
            place,
            log,
            make_clock=lambda _: WallClock(slot_seconds),
            on_event=stop_at_deadline,
        )
    return measure_overhead(SpotRunState.fold(log.events).slots)


def median_seconds(action: Callable[[], object], repeats: int) -> float:
    """Return the median seconds of an action, after one call as warm-up."""
    action()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def round_trip_seconds(weights: np.ndarray) -> float:
    """Return the median seconds of sending weights to a worker and a gradient back."""
    trainer, worker = multiprocessing.Pipe()
    requests = GRADIENT_MESSAGES.requests

    def echo() -> None:
        with suppress(EOFError):
            while True:
                worker.send_bytes(encode(decode(worker.recv_bytes(), requests), requests))

    def send_and_receive() -> None:
        trainer.send_bytes(encode(Compute(parts=[RowRange(0, 4)], arrays=[weights]), requests))
        decode(trainer.recv_bytes(), requests)

    thread = threading.Thread(target=echo)
    thread.start()
    seconds = median_seconds(send_and_receive, 20)
    trainer.close()
    thread.join()
    worker.close()
    return seconds


def measure_micro_batch(folder: Path) -> tuple[float, float, int]:
    """Return seconds of a micro-batch on GPT-2 small and of its round trip, and parameters."""
    job = make_job(folder, 128)
    base = random_gpt2_small(folder)
    worker = GradientWorker(base, job)
    weights = worker.first_weights
    seconds = median_seconds(lambda: worker.compute(RowRange(0, 4)), 5)
    return seconds, round_trip_seconds(weights), weights.size


def format_share(share: float | None) -> str:
    return "-" if share is None else f"{share:.4f}"


def main() -> None:
    """Print measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--slot-seconds", type=float, default=20.0)
    slot_seconds: float = parser.parse_args().slot_seconds
    torch.set_num_threads(1)
    table = Table("measurement", "value")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = load_base("tiny", cache=folder)
        settings = WorkerSettings(base.source, str(folder), make_job(folder, 32))
        start_fork_server(WORKER, gradient_worker(settings).argument)
        for warm in (False, True):
            seconds = seconds_to_start(gradient_worker(settings, folder / "log", fork=warm))
            table.add_row(f"start of a worker, {'warm' if warm else 'cold'}", f"{seconds:.3f} s")
        overhead = measure_run(folder, slot_seconds)
        longer = overhead.at(LONG_SLOT_SECONDS / slot_seconds)
        for length, shares in ((f"{slot_seconds:g} s", overhead), ("30 min", longer)):
            table.add_row(f"mu_1 in slots of {length}", format_share(shares.mu1))
            table.add_row(f"mu_2 in slots of {length}", format_share(shares.mu2))
        seconds, round_trip, num_parameters = measure_micro_batch(folder)
        table.add_row("micro-batch of GPT-2 small, 4 x 128 tokens", f"{seconds:.2f} s")
        table.add_row(
            f"its round trip, {num_parameters:,} parameters", f"{round_trip * 1e3:.1f} ms"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
