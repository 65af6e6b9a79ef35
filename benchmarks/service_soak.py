"""A soak of `auctune serve` with zones of all kinds, its auction on a Ray cluster of four nodes.

    python benchmarks/service_soak.py [--minutes M] [--seed S] [--keep FOLDER] [--even]

Six clients of three users bid, accept quotes, try, look, change their minds and make mistakes, at
random; at random moments the service, Ray's nodes and head, processes of jobs and a vendor are
killed, frozen, stopped and started again. Then all is mended and waited for, and log, ledger and
the clients' own records are compared in full. Ends with exit code 1 if they disagree; then the
folder is kept, and named. With --even as many bids are for each kind of zone, which others than the
auction cannot all train.
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
from soak.kinds import KINDS
from soak.report import show
from soak.run import soak


def main() -> int:
    """Soak, look and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--keep", type=Path, help="folder for settings, data and logs; a new one")
    parser.add_argument("--even", action="store_true", help="as many bids for each kind of zone")
    options = parser.parse_args()
    # What was started ends with whoever started it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(f"a soak of {options.minutes:g} minutes, seed {options.seed}")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="auctune-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    is_right = False
    try:
        weights = [1.0] * len(KINDS) if options.even else None
        soaked = soak(folder, options.minutes, options.seed, weights)
        show(soaked, console)
        is_right = not soaked.wrong
        (folder / "wrong.txt").write_text("".join(f"{one}\n" for one in soaked.wrong))
    finally:
        if is_right and options.keep is None:
            shutil.rmtree(folder)
        else:
            console.print(f"its settings, data and logs are in {folder}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
