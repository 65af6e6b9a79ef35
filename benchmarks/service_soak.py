"""A soak of `auctune serve` with zones of all kinds, its auction on a Ray cluster of four nodes.

    python benchmarks/service_soak.py [--minutes M] [--seed S] [--keep FOLDER] [--even]

Six clients of three users bid, accept quotes, dry-run, read, cancel, pause and resume jobs and send
invalid requests, at random; at random moments the service, Ray's nodes and head, processes of jobs
and a vendor are killed, paused, stopped and restarted. Then the soak recovers all faults and waits
until all jobs have ended, and compares log, ledger and the clients' records in full. On a violation
it exits with code 1, and keeps the folder. With --even each kind of zone gets as many bids; zones
other than the auction cannot train them all.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from soak.report import show
from soak.run import soak
from soak.zones import ZONES


def main() -> int:
    """Run a soak and print its result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--keep", type=Path, help="folder for settings, data and logs; a new one")
    parser.add_argument("--even", action="store_true", help="as many bids for each kind of zone")
    options = parser.parse_args()
    # SIGTERM runs the clean-up, so that no child process outlives the soak.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(f"a soak of {options.minutes:g} minutes, seed {options.seed}")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="auctune-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    has_passed = False
    try:
        weights = [1.0] * len(ZONES) if options.even else None
        result = soak(folder, options.minutes, options.seed, weights)
        show(result, console)
        has_passed = not result.violations
        (folder / "violations.txt").write_text("".join(f"{one}\n" for one in result.violations))
    finally:
        if has_passed and options.keep is None:
            shutil.rmtree(folder)
        else:
            console.print(f"settings, data and logs are in {folder}")
    return 0 if has_passed else 1


if __name__ == "__main__":
    sys.exit(main())
