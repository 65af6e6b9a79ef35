"""What every figure's command takes."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError
from auctune.sim import figures

OUT = Path("out/experiments/edge")
# A quick run has this many times fewer jobs, and sites.
SMALLER = 5
_SEEDS, _FEW_SEEDS = 5, 2


@dataclass(frozen=True, slots=True)
class Options:
    """How a figure is run.

    Attributes:
        out: folder of data and charts.
        seeds: of each setting.
        time_limit: seconds for HiGHS on an instance of the testbed.
        epochs: of each chunk that is trained for real.
        quick: small settings and two seeds, to see that all works.
    """

    out: Path = OUT
    seeds: int = _SEEDS
    time_limit: float = 60.0
    epochs: int = 40
    quick: bool = False


Figure = figures.Figure[Options]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that all figures have."""
    add = parser.add_argument
    add("--out", type=Path, default=OUT, help="folder for data and charts (%(default)s)")
    add("--seeds", type=int, default=None, help=f"of each setting ({_SEEDS})")
    add("--time-limit", type=float, default=60.0, help="seconds for HiGHS (%(default)s)")
    add("--epochs", type=int, default=None, help="of Figure 6's training (40, as in the paper)")
    add("--quick", action="store_true", help="small settings, to see that all works")


def to_options(parsed: argparse.Namespace) -> Options:
    """What was parsed, checked.

    Raises:
        InputError: naming the option.
    """
    seeds = parsed.seeds if parsed.seeds is not None else _FEW_SEEDS if parsed.quick else _SEEDS
    epochs = parsed.epochs if parsed.epochs is not None else 2 if parsed.quick else 40
    for name, count in (("--seeds", seeds), ("--epochs", epochs)):
        if count < 1:
            raise InputError(name, f"{count}", "a whole number >= 1")
    if not parsed.time_limit > 0:
        raise InputError("--time-limit", f"{parsed.time_limit}", "seconds > 0")
    # Small settings say nothing of large ones: their data stand apart.
    out = parsed.out / "quick" if parsed.quick else parsed.out
    return Options(out, seeds, parsed.time_limit, epochs, parsed.quick)


COMMANDS = figures.Commands(add_options, to_options)
main = COMMANDS.one
