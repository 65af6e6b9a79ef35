"""What one user notices of seven others, each of which stays within the limits of its key.

    python benchmarks/tenants.py [--seconds S] [--kinds KIND ...] [--jobs N] [--files N] [--json F]

`auctune serve` runs on SQLite in a new folder, with one zone, where no slot begins meanwhile. The
seven have N jobs each (500) with the largest metadata, and N files (200). For each kind of their
requests, and for all kinds together, one user is measured alone and beside the seven, S seconds
each (20), three times in turns. The seven send from a process of niceness 10 over connections that
stay open; each connection waits for its response, and then for its next turn.

The user bids 20 times a second at scheduled times (an open loop); meanwhile it lists jobs, asks for
a quote, uploads 1 kB and waits until it is examined, and asks a model for 8 tokens, each over and
over with a pause in between. Bids count from their scheduled times, so that queueing in a slow
service is included.

Exit code 1 if a request of the user fails or its response is wrong, if a request of the seven fails
otherwise than with 429, or if an acknowledged bid is lost. A missed goal is printed and no error.
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from service_load import check_database
from support.load import Bidder, make_bidders
from support.service_process import ServiceProcess, running, write_idle_service
from tenant_load import (
    ALL,
    ANSWER,
    EXAMINED,
    LOADS,
    NUM_TENANTS,
    UPLOAD,
    HonestUser,
    User,
    answer,
    send_loads,
)

REPEATS = 3
# How long the seven send before the user is measured beside them.
LEAD_SECONDS = 2.0
BID_P99_GOAL = 0.3
# Largest ratio of the 95th percentiles beside and alone, by request of the user and by load.
GOALS = {"bid": 2.0, "job list": 2.0, "quote": 2.0, EXAMINED: 3.0}
ANSWER_GOALS = {"streams": 3.0, "n16": 5.0, ALL: 5.0}


@contextmanager
def load_process(url: str, tenants: Sequence[Bidder]) -> Iterator[Connection]:
    """Yield the connection to a process with `send_loads`."""
    context = multiprocessing.get_context("spawn")
    pipe, far = context.Pipe()
    process = context.Process(target=send_loads, args=(far, url, tenants), daemon=True)
    process.start()
    far.close()
    try:
        # Its imports are not to slow the user down.
        pipe.recv()
        yield pipe
    finally:
        process.kill()
        process.join()


@dataclass
class Comparison:
    """A user alone and beside a load, in turns.

    Attributes:
        alone: the user alone, once for each turn.
        beside: the user beside the load, likewise.
        statuses: HTTP statuses of the load by kind, counted.
        load_seconds: for which the load was sent.
    """

    alone: list[HonestUser] = field(default_factory=list)
    beside: list[HonestUser] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    load_seconds: float = 0.0


async def compare(pipe: Connection, load: str, user: User, seconds: float) -> Comparison:
    """Measure a user alone and beside a load, in turns."""
    found = Comparison()
    for _ in range(REPEATS):
        found.alone.append(HonestUser(user))
        await found.alone[-1].run(seconds)
        pipe.send(load)
        began = time.perf_counter()
        await asyncio.sleep(LEAD_SECONDS)
        found.beside.append(HonestUser(user))
        await found.beside[-1].run(seconds)
        pipe.send("stop")
        found.load_seconds += time.perf_counter() - began
        found.statuses += pipe.recv()
    await user.http.aclose()
    return found


def percentile(seconds: Sequence[float], share: float) -> float:
    """Return the least latency that a share of all does not exceed; infinite without any."""
    ranked = sorted(seconds)
    return ranked[math.ceil(share * len(ranked)) - 1] if ranked else math.inf


def summarize(load: str, found: Comparison) -> list[dict[str, Any]]:
    """Return a row for each request of the user: percentiles in seconds, ratio, goal.

    Percentiles are those of all turns together, `ratios` those of each turn.
    """
    rows = []
    for name in ("bid", "job list", "quote", UPLOAD, EXAMINED, ANSWER):
        turns = {
            where: [one.latencies[name] for one in users]
            for where, users in (("alone", found.alone), ("beside", found.beside))
        }
        row: dict[str, Any] = {"load": load, "request": name}
        for where, latencies in turns.items():
            for percent in (50, 95, 99):
                row[f"{where}_p{percent}"] = percentile([*chain(*latencies)], percent / 100)
        row["ratio"] = row["beside_p95"] / row["alone_p95"]
        row["ratios"] = [
            percentile(b, 0.95) / percentile(a, 0.95)
            for a, b in zip(turns["alone"], turns["beside"], strict=True)
        ]
        row["goal"] = ANSWER_GOALS.get(load) if name == ANSWER else GOALS.get(name)
        rows.append(row)
    return rows


def show(
    console: Console, rows: Sequence[Mapping[str, Any]], loads: Mapping[str, Comparison]
) -> None:
    """Print the latencies beside each load, and what was sent."""
    average = " ".join(f"{one:.1f}" for one in os.getloadavg())
    title = f"{os.cpu_count()} processors, load average {average}"
    table = Table("the seven send", "the user's request", title=title)
    for name in ("alone p50, p95, s", "beside p50, p95, s", "p95 beside / alone", "goal", "met"):
        table.add_column(name, justify="right")
    for row in rows:
        if row["request"] == "bid":
            table.add_section()
        low, high = min(row["ratios"]), max(row["ratios"])
        goal = row["goal"]
        table.add_row(
            row["load"] if row["request"] == "bid" else "",
            row["request"],
            f"{row['alone_p50']:.3f}, {row['alone_p95']:.3f}",
            f"{row['beside_p50']:.3f}, {row['beside_p95']:.3f}",
            f"{row['ratio']:.1f} ({low:.1f} to {high:.1f})",
            f"<= {goal:g}" if goal else "",
            "" if not goal else "yes" if row["ratio"] <= goal else "[red]missed",
        )
    console.print(table)
    bids = Table("the seven send", "requests/s", "statuses", "bids acknowledged", "p99, s", "met")
    for load, found in loads.items():
        sent = sum(user.num_bids for user in found.beside)
        acknowledged = sum(len(user.jobs) for user in found.beside)
        p99 = next(
            row["beside_p99"] for row in rows if (row["load"], row["request"]) == (load, "bid")
        )
        is_met = acknowledged == sent and p99 <= BID_P99_GOAL
        bids.add_row(
            load,
            f"{found.statuses.total() / found.load_seconds:.1f}",
            ", ".join(f"{count} {status}" for status, count in sorted(found.statuses.items())),
            f"{acknowledged} of {sent}",
            f"{p99:.3f}",
            "yes" if is_met else "[red]missed",
        )
    console.print(bids)


async def measure(
    service: ServiceProcess, bidders: Sequence[Bidder], options: argparse.Namespace
) -> dict[str, Comparison]:
    """Fill the accounts of the seven, then compare the user alone and beside each load."""
    tenants, began = bidders[:NUM_TENANTS], time.perf_counter()
    users = [User(service.url, one) for one in tenants]
    async with asyncio.TaskGroup() as tasks:
        for user in users:
            tasks.create_task(user.fill(options.jobs, options.files))
    # The first answer starts the process of the model, and has to be as long as the load says.
    first = (await users[0].send(answer(max_tokens=480))).raise_for_status().json()
    assert first["usage"]["completion_tokens"] == 480, first
    for user in users:
        await user.http.aclose()
    print(f"filled accounts in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    loads = {}
    with load_process(service.url, tenants) as pipe:
        # A user for each load, as its jobs and files increase.
        for load, one in zip(options.kinds, bidders[NUM_TENANTS:], strict=True):
            print(f"measuring beside {load}", file=sys.stderr, flush=True)
            loads[load] = await compare(pipe, load, User(service.url, one), options.seconds)
    return loads


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--kinds", nargs="+", choices=[ALL, *LOADS], default=[ALL, *LOADS])
    parser.add_argument("--jobs", type=int, default=500, help="of each of the seven")
    parser.add_argument("--files", type=int, default=200, help="of each of the seven")
    parser.add_argument("--json", type=Path, help="file for the rows of the tables")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        config = write_idle_service(folder, mode="fused")
        with running(config, folder / "data") as service:
            bidders = make_bidders(service, NUM_TENANTS + len(options.kinds))
            loads = asyncio.run(measure(service, bidders, options))
        users = [user for found in loads.values() for user in found.alone + found.beside]
        stored = check_database(folder / "data", set().union(*(user.jobs for user in users)))
    rows = [row for load, found in loads.items() for row in summarize(load, found)]
    show(console, rows, loads)
    if options.json:
        statuses = {load: found.statuses for load, found in loads.items()}
        options.json.write_text(json.dumps({"rows": rows, "statuses": statuses}, indent=1))
    problems = [
        *(f"{n} times: {failure}" for user in users for failure, n in user.failures.items()),
        *(
            f"{n} responses of the seven: {status}"
            for found in loads.values()
            for status, n in found.statuses.items()
            if not status.endswith((" 200", " 429"))
        ),
        *([f"{stored['lost']} acknowledged bids are lost"] if stored["lost"] else []),
    ]
    for problem in problems:
        console.print(problem, style="red", markup=False)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
