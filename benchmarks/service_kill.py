"""Repeated SIGKILL of `auctune serve` under load: no bid is lost or doubled.

    python benchmarks/service_kill.py [--kills N] [--seed S]

Four users send 150 bids per second with idempotency keys, while a node trains admitted jobs in
slots of two seconds. The service is killed at random moments. Then the users' records are compared
with log and ledger. Exit code 1 if they disagree.
"""

import argparse
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.kill_loop import kill_again_and_again


def print_progress(kills: int, done: int) -> None:
    print(f"killed and restarted {done} of {kills} times", file=sys.stderr, flush=True)


def main() -> int:
    """Kill, check and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as scratch:
        report = kill_again_and_again(
            Path(scratch), options.kills, options.seed, partial(print_progress, options.kills)
        )
    console.print(
        f"{report.kills} kills, {report.sent} bids sent, {report.acknowledged} answers, "
        f"{report.unanswered} without an answer, {report.repeated} retried; "
        f"{report.admitted} admitted, {report.trained} slots of training recorded"
    )
    median, longest = statistics.median(report.start_seconds), max(report.start_seconds)
    console.print(f"seconds from start to service: median {median:.1f}, max {longest:.1f}")
    for fault in report.faults:
        console.print(f"[red]{fault}")
    console.print("nothing lost, nothing doubled" if not report.faults else "[red]records disagree")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
