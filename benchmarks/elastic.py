"""What it costs to change the number of workers of an elastic job, measured on this machine.

    python benchmarks/elastic.py [--slot-seconds N]

| what | how |
| --- | --- |
| start of a worker | from the launch to its word that it is ready, on the tiny base; fresh: an interpreter that loads everything; warm: forked from one that has |
| mu_1, mu_2 | a run of six real slots on the tiny base with fresh workers, in which the count rises and falls; then the same seconds in a slot of 30 minutes |
| weights there, gradient back | over a worker's link, for an adapter of rank 8 on GPT-2 small (random weights); beside the time of the micro-batch of 4 x 128 tokens that it belongs to |
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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import GPT2Config, GPT2LMHeadModel

from auctune.run.event_log import EventLog
from auctune.run.runtime.channel import decode, encode
from auctune.run.spot.clock import WallClock
from auctune.run.spot.events import OvertimeStarted, SpotEvent
from auctune.run.spot.job import SpotRunConfig, run_spot_job
from auctune.run.spot.launcher import LocalLauncher, LocalProvider
from auctune.run.spot.overhead import MeasuredOverhead, measure_overhead
from auctune.run.spot.provider import PurchaseOption
from auctune.run.spot.state import SpotRunState
from auctune.run.spot.traces import MarketTrace
from auctune.run.spot.worker import WorkerMessage, WorkerSettings
from auctune.spot import SpotAllocation, SpotJob, SpotMarket, SpotObservation
from auctune.train.base import Base, load_base
from auctune.train.data_parallel.gradients import GradientWorker
from auctune.train.data_parallel.trainer import ElasticTrainer
from auctune.train.job import LoraJob
from auctune.train.tokenizer import quiet_transformers

HALF_AN_HOUR = 1800.0
COUNTS = (1, 2, 1, 2, 1, 2)


@dataclass(frozen=True)
class UpAndDown:
    """Holds the counts above."""

    name: str = "up-and-down"
    horizon: int = 0

    def start(self, job: SpotJob) -> "UpAndDown":
        """It keeps nothing."""
        return self

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        """The slot's count, of spot instances."""
        return SpotAllocation(0, COUNTS[observation.slot])


def make_job(folder: Path, tokens: int, epochs: int = 1) -> LoraJob:
    """A job of rows that are all of `tokens` tokens."""
    data = folder / f"rows-{tokens}.jsonl"
    text = "one two three four " * tokens
    data.write_text(f'{{"text": "{text}"}}\n' * 100)
    return LoraJob(id="job", data=data, epochs=epochs, batch_size=4, max_length=tokens)


def seconds_to_start(launcher: LocalLauncher, repeats: int = 3) -> float:
    """Median seconds from a launch to a worker that is ready."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        worker = launcher.launch(PurchaseOption.ON_DEMAND)
        messages: queue.SimpleQueue[WorkerMessage] = queue.SimpleQueue()
        worker.start(messages.put)
        messages.get()
        seconds.append(time.perf_counter() - started)
        worker.kill()
    launcher.close()
    return statistics.median(seconds)


class DeadlineReached(Exception):  # noqa: N818
    """The run has shown what it is there for."""


def stop_at_deadline(event: SpotEvent) -> None:
    """End a run whose job is longer."""
    if isinstance(event, OvertimeStarted):
        raise DeadlineReached


def measure_run(folder: Path, slot_seconds: float) -> MeasuredOverhead:
    """The overheads of a run whose count rises and falls."""
    job = SpotJob(workload=1e6, deadline=len(COUNTS), n_max=2)
    training = make_job(folder, 32, epochs=100_000)
    order = SpotRunConfig(job=job, training=training, base="tiny", micro_batch=4)
    market = SpotMarket(np.full(len(COUNTS), 0.3), np.full(len(COUNTS), 2))
    with suppress(DeadlineReached):
        run_spot_job(
            order,
            UpAndDown(),
            LocalProvider(MarketTrace.of_slots(market)),
            folder / "run",
            cache=folder,
            make_clock=lambda _: WallClock(slot_seconds),
            on_event=stop_at_deadline,
        )
    journal = EventLog(folder / "run/state/journal.jsonl")
    journal.close()
    return measure_overhead(SpotRunState.fold(journal.events).slots)


def random_gpt2_small(folder: Path) -> Base:
    """GPT-2 small from its configuration, with the tiny base's tokenizer."""
    torch.manual_seed(0)
    place = folder / "gpt2-small"
    with quiet_transformers():
        GPT2LMHeadModel(GPT2Config()).save_pretrained(place)
    load_base("tiny", cache=folder).tokenizer.save_pretrained(str(place))
    return load_base(str(place), cache=folder)


def median_seconds(act: Callable[[], object], repeats: int) -> float:
    """Of one call, after one that does not count."""
    act()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def seconds_to_carry(values: np.ndarray) -> float:
    """Median seconds for weights to a worker and a gradient of the same size back."""
    ours, theirs = multiprocessing.Pipe()

    def echo() -> None:
        with suppress(EOFError):
            while True:
                theirs.send_bytes(encode(decode(theirs.recv_bytes())))

    def there_and_back() -> None:
        ours.send_bytes(encode({"do": "compute", "array": values}))
        decode(ours.recv_bytes())

    thread = threading.Thread(target=echo)
    thread.start()
    seconds = median_seconds(there_and_back, 20)
    ours.close()
    thread.join()
    theirs.close()
    return seconds


def measure_micro_batch(folder: Path) -> tuple[float, float, int]:
    """Seconds of a micro-batch of GPT-2 small, seconds of its way, parameters of the adapter."""
    job = make_job(folder, 128)
    base = random_gpt2_small(folder)
    trainer = ElasticTrainer(base, job, folder / "trainer", micro_batch=4)
    maker = GradientWorker(base, job)
    maker.set_weights(trainer.values)
    part = trainer.next_part()
    assert part is not None
    computing = median_seconds(lambda: maker.compute(part), 5)
    return computing, seconds_to_carry(trainer.values.copy()), trainer.values.size


def percent(share: float | None) -> str:
    """For people."""
    return "-" if share is None else f"{share:.4f}"


def main() -> None:
    """Measure, and print a table."""
    options = argparse.ArgumentParser()
    options.add_argument("--slot-seconds", type=float, default=20.0)
    slot_seconds: float = options.parse_args().slot_seconds
    torch.set_num_threads(1)
    table = Table("what", "measured")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = load_base("tiny", cache=folder)
        settings = WorkerSettings(base.source, str(folder), make_job(folder, 32))
        for warm in (False, True):
            seconds = seconds_to_start(LocalLauncher(settings, folder / "log", warm=warm))
            table.add_row(f"start of a worker, {'warm' if warm else 'cold'}", f"{seconds:.3f} s")
        overhead = measure_run(folder, slot_seconds)
        longer = overhead.at(HALF_AN_HOUR / slot_seconds)
        for length, found in ((f"{slot_seconds:g} s", overhead), ("30 min", longer)):
            table.add_row(f"mu_1 in slots of {length}", percent(found.mu1))
            table.add_row(f"mu_2 in slots of {length}", percent(found.mu2))
        computing, carrying, num_parameters = measure_micro_batch(folder)
        table.add_row("micro-batch of GPT-2 small, 4 x 128 tokens", f"{computing:.2f} s")
        what = f"its weights there and gradient back, {num_parameters:,} numbers"
        table.add_row(what, f"{carrying * 1e3:.1f} ms")
    Console().print(table)


if __name__ == "__main__":
    main()
