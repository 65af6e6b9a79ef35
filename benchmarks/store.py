"""Durable write batches per second, by the number of concurrent submitters.

    python benchmarks/store.py [--seconds S] [--folder FOLDER] [--postgres URL]

| what | how |
| --- | --- |
| fsync | 4 KiB appended to a file in FOLDER and synced to disk, repeatedly, by one process |
| batches | an event of 600 bytes, a job of 1,200 bytes and two entries; each submitter submits its next batch when the last one is durable; after a warm-up of a second |
| reads | 100,000 events of 600 bytes of one zone, through `EventLog`; once, from a warm cache |

FOLDER (a new one in the system's temporary folder) holds the SQLite database. PostgreSQL is the
empty database at URL, else a private server on the same disk; left out if none is installed.
"""  # noqa: E501

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from rich.console import Console
from rich.table import Table
from sqlalchemy import Connection, event

from auctune.service.storage import Committer, EventLog, Store, WriteBatch, open_store
from auctune.service.storage.event_log import VERSION, checksum
from auctune.service.storage.tables import entries, events, jobs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.postgres import find_programs, private_server

SUBMITTERS = (1, 10, 100, 1000)
WARM_UP_SECONDS = 1.0
EVENTS_READ = 100_000
EVENT_BODY, JOB_BODY = b"e" * 600, b"j" * 1200


@dataclass(frozen=True)
class Throughput:
    """Measurements for a number of submitters.

    Attributes:
        submitters: number of concurrent submitters.
        per_second: durable batches.
        per_transaction: batches.
        p50_ms: median time until a batch is durable.
        p99_ms: 99th percentile of the same.
        cpu_us: CPU time of this process per batch.
    """

    submitters: int
    per_second: float
    per_transaction: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


def make_batch(committer: Committer, done: SimpleQueue[float]) -> WriteBatch:
    seq = committer.next_seq(3)
    job = f"ftjob-{seq:024}"
    at = time.time()
    shared: dict[str, Any] = {"seq": seq, "job": job, "at": at}
    sent = time.perf_counter()

    def written(error: Exception | None) -> None:
        assert error is None
        done.put(time.perf_counter() - sent)

    decided: dict[str, Any] = {
        "zone": "z",
        "slot": seq // 1000,
        "type": "job.decided",
        "body": EVENT_BODY,
        "version": VERSION,
    }
    decided["checksum"] = checksum(**shared, **decided)
    return (
        WriteBatch(written)
        .insert(events, {**shared, **decided})
        .upsert(
            jobs,
            {
                "id": job,
                "seq": seq,
                "zone": "z",
                "owner": f"user-{seq % 50}",
                "created_at": at,
                "status": "queued",
                "body": JOB_BODY,
            },
        )
        .insert(
            entries,
            {**shared, "id": seq + 1, "account": f"user-{seq % 50}", "amount": -seq},
            {**shared, "id": seq + 2, "account": "market", "amount": seq},
        )
    )


def measure(store: Store, submitters: int, seconds: float) -> Throughput:
    """Keep `submitters` batches in flight for some seconds."""
    done: SimpleQueue[float] = SimpleQueue()
    latencies: list[float] = []
    transactions = 0

    @event.listens_for(store.writer, "commit")
    def committed(_: Connection) -> None:
        nonlocal transactions
        transactions += 1

    with Committer(store) as committer:
        for _ in range(submitters):
            committer.submit(make_batch(committer, done))
        begin, end = 0.0, time.perf_counter() + WARM_UP_SECONDS
        cpu = time.process_time()
        while True:
            latencies.append(done.get())
            now = time.perf_counter()
            if now >= end:
                if begin:
                    break
                begin, end = now, now + seconds
                transactions, cpu = 0, time.process_time()
                latencies.clear()
            committer.submit(make_batch(committer, done))
        cpu = time.process_time() - cpu
        event.remove(store.writer, "commit", committed)
        count = len(latencies)
        ranked = statistics.quantiles(latencies, n=100)
        return Throughput(
            submitters,
            count / (now - begin),
            count / transactions,
            ranked[49] * 1000,
            ranked[98] * 1000,
            cpu / count * 1e6,
        )


def fsync_seconds(folder: Path, seconds: float) -> list[float]:
    """Return the durations of single writes with fsync."""
    durations = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        end = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            file.write(bytes(4096))
            os.fsync(file.fileno())
            durations.append(time.perf_counter() - begin)
    return durations


def _event_to_read(seq: int) -> dict[str, Any]:
    shared = {"zone": "read", "slot": 0, "at": 0.0, "type": "t", "job": None}
    return {"seq": seq, **shared, "body": EVENT_BODY, "version": VERSION}


def read_seconds(store: Store) -> float:
    """Return the seconds of reading a zone."""
    with Committer(store) as committer:
        first = committer.next_seq(EVENTS_READ)
        for begin in range(first, first + EVENTS_READ, 1000):
            committer.submit(
                WriteBatch().insert(
                    events,
                    *(
                        {**event, "checksum": checksum(**event)}
                        for event in map(_event_to_read, range(begin, begin + 1000))
                    ),
                )
            )
    log = EventLog(store.reader)
    begin_time = time.perf_counter()
    assert sum(1 for _ in log.read_zone("read")) == EVENTS_READ
    return time.perf_counter() - begin_time


@contextmanager
def databases(folder: Path, url: str | None) -> Iterator[dict[str, str | Path]]:
    """Yield folder or URL of each database, by name."""
    places: dict[str, str | Path] = {"SQLite": folder}
    with ExitStack() as stack:
        programs = find_programs()
        if url is None and programs is not None:
            url = stack.enter_context(private_server(programs)).make_database()
        if url is not None:
            places["PostgreSQL"] = url
        yield places


def show(console: Console, name: str, measured: Sequence[Throughput], reading: float) -> None:
    table = Table("submitters", "batches/s", "per transaction", "p50 ms", "p99 ms", "CPU µs/batch")
    table.title = f"{name}: {EVENTS_READ:,} events read in {reading:.2f} s"
    for row in measured:
        table.add_row(
            f"{row.submitters:,}",
            f"{row.per_second:,.0f}",
            f"{row.per_transaction:,.1f}",
            f"{row.p50_ms:,.2f}",
            f"{row.p99_ms:,.2f}",
            f"{row.cpu_us:,.0f}",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Durable write batches per second.")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each measurement")
    parser.add_argument("--folder", type=Path, help="folder on the disk to measure")
    parser.add_argument("--postgres", metavar="URL", help="of an empty database")
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        fsyncs = statistics.quantiles(fsync_seconds(folder, arguments.seconds), n=100)
        console.print(f"fsync: p50 {fsyncs[49] * 1000:.2f} ms, p99 {fsyncs[98] * 1000:.2f} ms")
        with databases(folder, arguments.postgres) as places:
            for kind, place in places.items():
                with open_store(place) as store:
                    measured = [measure(store, count, arguments.seconds) for count in SUBMITTERS]
                    show(console, kind, measured, read_seconds(store))


if __name__ == "__main__":
    main()
