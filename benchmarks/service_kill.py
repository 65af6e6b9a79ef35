"""kill -9 of `auctune serve` under load, again and again: nothing lost, nothing twice.

    python benchmarks/service_kill.py [--kills N] [--seed S]

Bids by four users, 150 a second with idempotency keys, while a node trains what was sold in slots
of two seconds. The service is killed at random moments. Checked from outside, by the bidders' own
record against log and ledger. Ends with exit code 1 if something is wrong.
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


def tell(kills: int, done: int) -> None:
    """A line for each kill: what comes of them is known only at the end."""
    print(f"killed and back {done} of {kills} times", file=sys.stderr, flush=True)


def main() -> int:
    """Kill, look and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as scratch:
        report = kill_again_and_again(
            Path(scratch), options.kills, options.seed, partial(tell, options.kills)
        )
    console.print(
        f"{report.kills} kills, {report.sent} bids sent, {report.acknowledged} answers, "
        f"{report.unanswered} without an answer, {report.repeated} made again; "
        f"{report.admitted} admitted, {report.trained} slots of training on record"
    )
    median, longest = statistics.median(report.start_seconds), max(report.start_seconds)
    console.print(f"seconds from start to service: median {median:.1f}, longest {longest:.1f}")
    for fault in report.faults:
        console.print(f"[red]{fault}")
    console.print("nothing lost, nothing twice" if not report.faults else "[red]that is wrong")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
