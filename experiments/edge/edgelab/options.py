"""What every figure's command takes."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError

OUT = Path("out/experiments/edge")
# A quick run has this many times fewer jobs, and sites.
SMALLER = 5


@dataclass(frozen=True, slots=True)
class Options:
    """How a figure is run.

    Attributes:
        out: folder of data and charts.
        seeds: of each setting.
        time_limit: seconds for HiGHS on an instance of the testbed.
        quick: small settings and two seeds, to see that all works.
    """

    out: Path = OUT
    seeds: int = 5
    time_limit: float = 60.0
    quick: bool = False


def parse(arguments: Sequence[str] | None, description: str) -> Options:
    """Options from a command line.

    Raises:
        InputError: naming the option.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    return to_options(parser.parse_args(arguments))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that all figures have."""
    add = parser.add_argument
    add("--out", type=Path, default=OUT, help="folder for data and charts (%(default)s)")
    add("--seeds", type=int, default=None, help="of each setting (5)")
    add("--time-limit", type=float, default=60.0, help="seconds for HiGHS (%(default)s)")
    add("--quick", action="store_true", help="small settings and two seeds")


def to_options(parsed: argparse.Namespace) -> Options:
    """What was parsed, checked.

    Raises:
        InputError: naming the option.
    """
    seeds = parsed.seeds if parsed.seeds is not None else (2 if parsed.quick else 5)
    if seeds < 1:
        raise InputError("--seeds", f"{seeds}", "a whole number >= 1")
    if not parsed.time_limit > 0:
        raise InputError("--time-limit", f"{parsed.time_limit}", "seconds > 0")
    # Small settings say nothing of large ones: their data stand apart.
    out = parsed.out / "quick" if parsed.quick else parsed.out
    return Options(out, seeds, parsed.time_limit, parsed.quick)
