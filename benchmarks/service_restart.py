"""Time from the start of `auctune serve` until it serves, by the size of its log.

    python benchmarks/service_restart.py [--events N]

A log of N events (100,000) is written by deciding bids in this process, as the service does; then
the service is started on an empty folder, on the log, and on the log with a snapshot of the maximum
age (20,000 events). Times are those of whole processes, imports included.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

from rich.console import Console
from rich.table import Table

from auctune.domain import write_snapshot
from auctune.domain.data_size import DataSize
from auctune.engine.base_place import base_cache
from auctune.engine.unix_time import SlotClock
from auctune.service.accounts.budgets import BudgetTracker
from auctune.service.accounts.limits import OpenJobs
from auctune.service.accounts.registry import AccountRegistry
from auctune.service.config.auction import AuctionConfig
from auctune.service.config.models import read_config
from auctune.service.event_writer import LogWriter
from auctune.service.jobs.training import Training
from auctune.service.metrics import Metrics
from auctune.service.service import profile_zone
from auctune.service.storage import Committer, Snapshots, open_store
from auctune.service.storage.committer import noop
from auctune.service.storage.identity import bind
from auctune.service.tasks import Notifier
from auctune.service.zones.auction.kind import auction_record, build_supply
from auctune.service.zones.auction.state import empty_model
from auctune.service.zones.auction.zone import AuctionZone, Bid
from auctune.service.zones.core.worker import DataDirs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.service_process import ServiceProcess, write_idle_service

MAX_SNAPSHOT_AGE = 20_000


def make_log(config: Path, data: Path, count: int, snapshot_after: int | None) -> None:
    """Write a log of `count` events, and a snapshot after `snapshot_after` events if not `None`."""
    data.mkdir()
    entry = read_config(config).zones[0]
    assert isinstance(entry, AuctionConfig)
    facts = profile_zone(entry, DataDirs(data, base_cache()), lambda *_: None)
    record = auction_record(entry, facts, time.time())
    rng = random.Random(1)
    with open_store(data, data) as store, Committer(store) as committer:
        bind(store.writer, data, store.label)
        directory = AccountRegistry(store.reader, committer, time.time)
        spending = BudgetTracker(directory, time.time, store.reader)
        open_jobs = OpenJobs(count)
        recorder = LogWriter(committer, spending, open_jobs, Metrics(open_jobs), Notifier())
        clock = SlotClock(record["epoch"], record["slot_seconds"], time.time)
        supply = build_supply(entry, record)
        zone = AuctionZone(entry.name, supply, empty_model(record), clock, recorder)
        zone.record_created(record)
        zone.begin_slots()
        while zone.state.seq < count:
            zone.decide(_bid(rng))
            recorder.record(zone.pop_events(), noop)
            if snapshot_after is not None and zone.state.seq >= snapshot_after:
                body = write_snapshot(zone.model.save())
                seq, snapshot_after = zone.state.seq, None
                committer.submit(
                    Snapshots(store.reader).write_batch(entry.name, seq, time.time(), body)
                )


def _bid(rng: random.Random) -> Bid:
    return Bid(
        job=f"ftjob-{rng.getrandbits(96):024x}",
        owner=f"user{rng.randrange(50)}",
        training=Training("file-a", epochs=rng.randrange(1, 5), share=0.0004),
        size=DataSize(40, 40.0),
        bid=Decimal(f"{rng.lognormvariate(-2, 2):.4f}"),
        deadline=time.time() + 3600 * rng.randrange(30, 47),
        request={
            "model": "tiny",
            "training_file": "file-a",
            "validation_file": None,
            "learning_rate_multiplier": 1.0,
            "organization_id": "user",
            "metadata": None,
            "suffix": None,
            "bid": "1",
            "deadline": 0.0,
        },
    )


def measure_starts(config: Path, data: Path, repeats: int = 3) -> list[float]:
    """Return the seconds of starts, each ended by SIGKILL."""
    seconds = []
    for _ in range(repeats):
        service = ServiceProcess(config, data)
        seconds.append(service.start())
        service.kill()
    return seconds


def main() -> None:
    """Print start times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=100_000)
    count = parser.parse_args().events
    table = Table("log", "first start, s", "median of 3, s", title="start of the service")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        config = write_idle_service(folder)
        for name, snapshot in (
            ("empty", None),
            ("without a snapshot", None),
            ("with a snapshot", max(1, count - MAX_SNAPSHOT_AGE)),
        ):
            data = folder / name.replace(" ", "-")
            if name != "empty":
                make_log(config, data, count, snapshot)
            seconds = measure_starts(config, data)
            table.add_row(name, f"{seconds[0]:.1f}", f"{statistics.median(seconds):.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
