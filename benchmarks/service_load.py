"""How many bids a second `auctune serve` decides durably, over HTTP, with its load generator beside it.

    python benchmarks/service_load.py [--seconds S] [--rate R] [--connections N] [--users U]

A service of its own with SQLite in a new folder; one zone of one node, priced as learned. Users bid
on R scheduled times a second, one bid a request, spread over N connections; a wait counts from its
scheduled time, so that a service that falls behind shows it. The achieved rate is the number of
acknowledged bids over the time from the first scheduled moment to the last answer. Five seconds of
warming up come first and are not counted. Afterwards the service is killed with SIGKILL and every
acknowledged bid is looked for in the database.

Then `minimal_route.py`, a FastAPI route that writes one row with the same group commit, gets the
same load: the service's CPU a bid over that of this route depends less on the machine than either.

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
from support.service_process import running, write_service
from support.tiny_architecture import tiny_architecture

WARM_UP_SECONDS = 5.0
RATE_TOLERANCE = 0.02
CPU_RATIO_GOAL = 3.0


@dataclass(frozen=True, slots=True)
class Served:
    """What a server made of a load.

    Attributes:
        offered: bids scheduled a second.
        achieved: bids acknowledged a second, until the last answer.
        num_answers: bids acknowledged.
        waits: seconds from each bid's scheduled moment to its answer.
        statuses: of HTTP, counted.
        cpu: seconds of a core that the server's process took.
    """

    offered: float
    achieved: float
    num_answers: int
    waits: list[float]
    statuses: Mapping[int, int]
    cpu: float

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of a core for a bid."""
        return 1000 * self.cpu / max(1, self.num_answers)

    def shortfall(self) -> str | None:
        """Return why the achieved rate does not count as the offered one, `None` if it does."""
        if abs(self.achieved - self.offered) <= RATE_TOLERANCE * self.offered:
            return None
        return (
            f"offered {self.offered:,.0f} bids a second, achieved {self.achieved:,.0f}: they "
            f"differ by more than {RATE_TOLERANCE:.0%}, so the offered rate was not sustained; "
            "offer less with --rate"
        )


async def bid(load: Load, seconds: float, server: int) -> Served:
    """Warm up, then bid for so long and wait for all answers."""
    await load.run(WARM_UP_SECONDS)
    load.answers.clear()
    load.waits.clear()
    load.statuses.clear()
    before = _cpu_seconds(server)
    await load.run(seconds)
    return served(load, seconds, _cpu_seconds(server) - before)


def served(load: Load, seconds: float, cpu: float) -> Served:
    """The figures of a load that has run: rates over planned and over elapsed seconds."""
    elapsed = load.last_answer - load.begun
    return Served(
        offered=load.scheduled / seconds,
        achieved=len(load.answers) / elapsed if elapsed > 0 else 0.0,
        num_answers=len(load.answers),
        waits=list(load.waits),
        statuses=dict(load.statuses),
        cpu=cpu,
    )


def look(data: Path, acknowledged: set[str]) -> dict[str, int]:
    """What the database holds of the acknowledged bids."""
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
        "twice": sum(count > 1 for count in decided.values()),
        "admitted": admitted,
        "ledger": balance,
    }


@contextmanager
def minimal_route(data: Path) -> Iterator[tuple[int, tuple[str, int]]]:
    """The process and address of a server with the minimal route, for a block."""
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
                raise SystemExit("minimal_route.py ended before it served")
            yield process.pid, ("127.0.0.1", int(line.rpartition(":")[2]))
        finally:
            process.kill()


def main() -> int:
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
            # The load may come from a single key.
            more=f"[limits]\nrequests_per_second = {options.rate}\nburst = {8 * options.rate}\n",
        )
        data = folder / "data"
        with running(config, data) as service:
            bidders: list[Bidder] = make_bidders(service, options.users)
            load = Load(
                service.address, bidders, options.connections, options.rate, random.Random(1)
            )
            own = asyncio.run(bid(load, options.seconds, service.pid))
        found = look(data, {answer.job for answer in load.answers})
        with minimal_route(folder / "minimal") as (pid, address):
            load = Load(address, bidders, options.connections, options.rate, random.Random(1))
            least = asyncio.run(bid(load, options.seconds, pid))
    _show(console, options.seconds, own, least, found)
    faults = [
        *([shortfall] if (shortfall := own.shortfall()) else []),
        *([f"minimal route: {shortfall}"] if (shortfall := least.shortfall()) else []),
        *([f"{found['lost']} acknowledged bids are lost"] if found["lost"] else []),
        *([f"{found['twice']} bids were decided twice"] if found["twice"] else []),
        *([f"the ledger sums to {found['ledger']}, not 0"] if found["ledger"] else []),
    ]
    for fault in faults:
        console.print(f"[red]{fault}")
    return 1 if faults else 0


def _cpu_seconds(pid: int) -> float:
    """Of a process, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _show(
    console: Console, seconds: float, own: Served, least: Served, found: Mapping[str, int]
) -> None:
    load = " ".join(f"{average:.1f}" for average in os.getloadavg())
    title = f"{seconds:g} s of bids; {os.cpu_count()} processors, load average {load}"
    table = Table("measured", "auctune serve", "minimal route", title=title)
    both = (own, least)
    table.add_row("offered, bids a second", *(f"{one.offered:,.0f}" for one in both))
    table.add_row("achieved, durable answers a second", *(f"{one.achieved:,.0f}" for one in both))
    table.add_row("p50, p99, p99.9, longest, ms", *map(_waits, both))
    table.add_row("answers", *(_answers(one) for one in both))
    table.add_row("CPU a bid", *(f"{one.cpu_ms:.2f} ms" for one in both))
    ratio = own.cpu_ms / least.cpu_ms if least.cpu_ms else float("inf")
    table.add_row("CPU a bid, over the minimal route's", f"{ratio:.1f}", f"goal {CPU_RATIO_GOAL:g}")
    table.add_row("admitted", f"{found['admitted'] / max(1, own.num_answers):.1%}", "")
    table.add_row("acknowledged and lost", f"{found['lost']}", "")
    table.add_row("decided twice", f"{found['twice']}", "")
    table.add_row("sum of the ledger", f"{found['ledger']}", "")
    console.print(table)


def _waits(one: Served) -> str:
    if len(one.waits) < 2:
        return "-"
    ranked = statistics.quantiles(one.waits, n=1000)
    chosen = (ranked[499], ranked[989], ranked[998], max(one.waits))
    return ", ".join(f"{1000 * wait:.1f}" for wait in chosen)


def _answers(one: Served) -> str:
    return ", ".join(f"{count:,} of {status}" for status, count in one.statuses.items())


if __name__ == "__main__":
    sys.exit(main())
