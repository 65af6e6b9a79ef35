"""Durable decisions per second of `auctune serve` over HTTP, with the load generator on the machine.

    python benchmarks/service_load.py [--seconds S] [--rate R] [--connections N] [--users U]

The service runs on SQLite in a new folder, with one zone of one node and learned prices. Users send
R bids per second at scheduled times (an open loop), one bid per request, over N connections.
Latency counts from the scheduled time, so that queueing in a slow service is included. The achieved
rate is the number of acknowledged bids over the time from the first scheduled time to the last
response. A warm-up of five seconds is not counted. Then the service is killed with SIGKILL, and the
database must have every acknowledged bid.

`minimal_route.py`, a FastAPI route that writes one row with the same group commit, gets the same
load: the ratio of CPU times per bid depends less on the machine than either CPU time.

Exit code 1 if the achieved rate differs by more than 2% from the offered one, if an acknowledged
bid is lost or decided twice, or if the ledger does not balance.
"""  # noqa: E501

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, func, select

from auctune.service.storage.tables import entries, events

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.load import Bidder, Load, make_bidders
from support.service_process import running, write_idle_service

WARM_UP_SECONDS = 5.0
RATE_TOLERANCE = 0.02
CPU_RATIO_GOAL = 3.5


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Result of a load on a server.

    Attributes:
        offered: scheduled bids per second.
        achieved: acknowledged bids per second, until the last response.
        num_acknowledged: number of acknowledged bids.
        latencies: seconds from the scheduled time of each bid to its response.
        statuses: HTTP statuses, counted.
        cpu_seconds: CPU time of the server's process.
    """

    offered: float
    achieved: float
    num_acknowledged: int
    latencies: list[float]
    statuses: Mapping[int, int]
    cpu_seconds: float

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds per bid."""
        return 1000 * self.cpu_seconds / max(1, self.num_acknowledged)

    def shortfall(self) -> str | None:
        """Return a message if the achieved rate is not the offered one, else `None`."""
        if abs(self.achieved - self.offered) <= RATE_TOLERANCE * self.offered:
            return None
        return (
            f"offered {self.offered:,.0f} bids per second, achieved {self.achieved:,.0f}: they "
            f"differ by more than {RATE_TOLERANCE:.0%}, so the offered rate was not sustained; "
            "offer less with --rate"
        )


async def run_load(load: Load, seconds: float, server: int) -> LoadResult:
    """Warm up, then send bids for some seconds and wait for all responses."""
    await load.run(WARM_UP_SECONDS)
    load.answers.clear()
    load.waits.clear()
    load.statuses.clear()
    before = _cpu_seconds(server)
    await load.run(seconds)
    return summarize(load, seconds, _cpu_seconds(server) - before)


def summarize(load: Load, seconds: float, cpu_seconds: float) -> LoadResult:
    """Return the result of a load that was planned for some seconds."""
    elapsed = load.last_answer - load.begun
    return LoadResult(
        offered=load.scheduled / seconds,
        achieved=len(load.answers) / elapsed if elapsed > 0 else 0.0,
        num_acknowledged=len(load.answers),
        latencies=list(load.waits),
        statuses=dict(load.statuses),
        cpu_seconds=cpu_seconds,
    )


def check_database(data: Path, acknowledged: set[str]) -> dict[str, int]:
    """Return numbers of lost, doubled and admitted bids, and the sum of the ledger."""
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    with engine.connect() as connection:
        chosen = select(events.c.job, events.c.body).where(events.c.type == "job.decided")
        decided: Counter[str] = Counter()
        admitted = 0
        for job, body in connection.execute(chosen):
            decided[job] += 1
            admitted += job in acknowledged and json.loads(body)["decision"]["admitted"]
        balance = connection.execute(select(func.sum(entries.c.amount))).scalar() or 0
    engine.dispose()
    return {
        "lost": len(acknowledged - decided.keys()),
        "doubled": sum(count > 1 for count in decided.values()),
        "admitted": admitted,
        "ledger": balance,
    }


@contextmanager
def minimal_route(data: Path) -> Iterator[tuple[int, tuple[str, int]]]:
    """Run a server with the minimal route; yield its process id and address."""
    command: list[str | Path] = [
        sys.executable,
        Path(__file__).with_name("minimal_route.py"),
        "--data",
        data,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("serves at"):
                raise SystemExit("minimal_route.py exited before it served")
            yield process.pid, ("127.0.0.1", int(line.rpartition(":")[2]))
        finally:
            process.kill()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=400.0)
    parser.add_argument("--connections", type=int, default=48)
    parser.add_argument("--users", type=int, default=8)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        config = write_idle_service(
            folder,
            mode="fused",
            # A single user may send the whole load.
            more=f"[limits]\nrequests_per_second = {options.rate}\n",
        )
        data = folder / "data"
        with running(config, data) as service:
            bidders: list[Bidder] = make_bidders(service, options.users)
            load = Load(
                service.address, bidders, options.connections, options.rate, random.Random(1)
            )
            result = asyncio.run(run_load(load, options.seconds, service.pid))
        stored = check_database(data, {answer.job for answer in load.answers})
        with minimal_route(folder / "minimal") as (pid, address):
            load = Load(address, bidders, options.connections, options.rate, random.Random(1))
            baseline = asyncio.run(run_load(load, options.seconds, pid))
    _show(console, options.seconds, result, baseline, stored)
    problems = [
        *([shortfall] if (shortfall := result.shortfall()) else []),
        *([f"minimal route: {shortfall}"] if (shortfall := baseline.shortfall()) else []),
        *([f"{stored['lost']} acknowledged bids are lost"] if stored["lost"] else []),
        *([f"{stored['doubled']} bids were decided twice"] if stored["doubled"] else []),
        *([f"the ledger sums to {stored['ledger']}, not 0"] if stored["ledger"] else []),
    ]
    for problem in problems:
        console.print(f"[red]{problem}")
    return 1 if problems else 0


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _show(
    console: Console,
    seconds: float,
    result: LoadResult,
    baseline: LoadResult,
    stored: Mapping[str, int],
) -> None:
    load = " ".join(f"{average:.1f}" for average in os.getloadavg())
    title = f"{seconds:g} s of bids; {os.cpu_count()} processors, load average {load}"
    table = Table("measured", "auctune serve", "minimal route", title=title)
    both = (result, baseline)
    table.add_row("offered bids/s", *(f"{one.offered:,.0f}" for one in both))
    table.add_row("achieved bids/s", *(f"{one.achieved:,.0f}" for one in both))
    table.add_row("latency p50, p99, p99.9, max, ms", *map(_latencies, both))
    table.add_row("responses", *map(_responses, both))
    table.add_row("CPU per bid", *(f"{one.cpu_ms:.2f} ms" for one in both))
    ratio = result.cpu_ms / baseline.cpu_ms if baseline.cpu_ms else float("inf")
    table.add_row("CPU per bid / minimal route's", f"{ratio:.1f}", f"goal {CPU_RATIO_GOAL:g}")
    table.add_row("admitted", f"{stored['admitted'] / max(1, result.num_acknowledged):.1%}", "")
    table.add_row("acknowledged and lost", f"{stored['lost']}", "")
    table.add_row("decided twice", f"{stored['doubled']}", "")
    table.add_row("sum of the ledger", f"{stored['ledger']}", "")
    console.print(table)


def _latencies(result: LoadResult) -> str:
    if len(result.latencies) < 2:
        return "-"
    ranked = statistics.quantiles(result.latencies, n=1000)
    chosen = (ranked[499], ranked[989], ranked[998], max(result.latencies))
    return ", ".join(f"{1000 * seconds:.1f}" for seconds in chosen)


def _responses(result: LoadResult) -> str:
    return ", ".join(f"{count:,} of {status}" for status, count in result.statuses.items())


if __name__ == "__main__":
    sys.exit(main())
