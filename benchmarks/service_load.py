"""How many bids a second `auctune serve` decides durably, over HTTP, with its load generator beside it.

    python benchmarks/service_load.py [--seconds S] [--rate R] [--connections N] [--users U]

A service of its own with SQLite in a new folder; one zone of one node, priced as learned. Users bid
on R scheduled times a second, one bid a request, spread over N connections; a wait counts from its
scheduled time, so that a service that falls behind shows it. Afterwards the service is killed with
SIGKILL and every acknowledged bid is looked for in the database.
"""  # noqa: E501

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, func, select

from auctune.service.store.tables import entries, events

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.load import Bidder, Load, make_bidders
from support.service_process import running, write_service
from support.tiny_architecture import tiny_architecture

WARM_UP_SECONDS = 5.0


async def bid(load: Load, seconds: float, service: int) -> float:
    """Warm up, then bid; seconds of a core that the service's process took for it."""
    await load.run(WARM_UP_SECONDS)
    load.answers.clear()
    load.waits.clear()
    load.statuses.clear()
    before = _cpu_seconds(service)
    await load.run(seconds)
    return _cpu_seconds(service) - before


def look(data: Path, acknowledged: set[str]) -> dict[str, int]:
    """What the database holds of the acknowledged bids."""
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    with engine.connect() as connection:
        chosen = select(events.c.job, events.c.body).where(events.c.kind == "job.decided")
        decided: Counter[str] = Counter()
        admitted = 0
        for job, body in connection.execute(chosen):
            decided[job] += 1
            admitted += job in acknowledged and json.loads(body)["decision"]["admitted"]
        balance = connection.execute(select(func.sum(entries.c.amount))).scalar() or 0
    engine.dispose()
    return {
        "lost": len(acknowledged - decided.keys()),
        "twice": sum(count > 1 for count in decided.values()),
        "admitted": admitted,
        "ledger": balance,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=1050.0)
    parser.add_argument("--connections", type=int, default=48)
    parser.add_argument("--users", type=int, default=8)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        config = write_service(
            folder,
            tiny_architecture(),
            slot_seconds=7200.0,
            slots=24,
            mode="fused",
            tokens_per_second=20_000.0,
            share=0.0004,
        )
        data = folder / "data"
        with running(config, data) as service:
            bidders: list[Bidder] = make_bidders(service, options.users)
            load = Load(
                service.address, bidders, options.connections, options.rate, random.Random(1)
            )
            cpu = asyncio.run(bid(load, options.seconds, service.pid))
        found = look(data, {answer.job for answer in load.answers})
    _show(console, load, options.seconds, found, cpu)


def _cpu_seconds(pid: int) -> float:
    """Of a process, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _show(console: Console, load: Load, seconds: float, found: dict[str, int], cpu: float) -> None:
    ranked = statistics.quantiles(load.waits, n=1000)
    table = Table("measured", "value", title=f"{seconds:g} s of bids")
    table.add_row("durable decisions a second", f"{len(load.answers) / seconds:,.0f}")
    table.add_row("p50, p99, p99.9, longest, ms", ", ".join(
        f"{1000 * wait:.1f}" for wait in (ranked[499], ranked[989], ranked[998], max(load.waits))
    ))  # fmt: skip
    table.add_row("answers", ", ".join(f"{n} of {s}" for s, n in load.statuses.items()))
    table.add_row("admitted", f"{found['admitted'] / max(1, len(load.answers)):.1%}")
    table.add_row("acknowledged and lost", f"{found['lost']}")
    table.add_row("decided twice", f"{found['twice']}")
    table.add_row("sum of the ledger", f"{found['ledger']}")
    table.add_row("the service's CPU a bid", f"{1000 * cpu / len(load.answers):.2f} ms")
    console.print(table)


if __name__ == "__main__":
    main()
