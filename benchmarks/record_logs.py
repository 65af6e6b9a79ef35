"""Record the logs of a soak as a test fixture, with all that a service answers when opened on them.

    python benchmarks/service_soak.py --minutes 5 --even --keep FOLDER
    python benchmarks/record_logs.py FOLDER [--to tests/data/recorded_logs]
    python benchmarks/record_logs.py --expectations

The first form replaces the fixture of `tests/integration/test_recorded_logs.py`. The last one keeps
the logs and replaces only what is expected of them. That is legitimate after a deliberate change of
an answer, named in the commit, and never in a refactoring: the test exists to show that a
refactoring changes nothing. Where a change renames what is stored, or adds a key to the rows of
jobs (`jobs.jsonl.xz`), convert the fixture by a script and leave the expectations' meaning alone.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from soak.recording import record
from support.recorded_logs import FIXTURE, write_expectations


def main() -> None:
    """Convert and observe."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("soaked", type=Path, nargs="?", help="what a soak was told to keep")
    parser.add_argument("--expectations", action="store_true", help="keep the logs as they are")
    parser.add_argument("--to", type=Path, default=FIXTURE, help="folder of the fixture")
    options = parser.parse_args()
    if (options.soaked is None) != options.expectations:
        parser.error("name the folder of a soak, or --expectations")
    if options.soaked is not None:
        record(options.soaked / "site", options.to)
    write_expectations(options.to)
    for file in sorted(options.to.iterdir()):
        print(f"{file.stat().st_size:>9,} {file}")


if __name__ == "__main__":
    main()
