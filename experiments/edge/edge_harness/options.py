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
class Options(figures.RunOptions):
    """How a figure is run.

    Attributes:
        seeds: of each setting.
        time_limit: seconds for HiGHS on an instance of the testbed.
        epochs: of each chunk that is trained for real.
    """

    out: Path = OUT
    seeds: int = _SEEDS
    time_limit: float = 60.0
    epochs: int = 40


Figure = figures.Figure[Options]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that all figures have."""
    figures.add_run_options(parser, OUT)
    add = parser.add_argument
    add("--seeds", type=int, default=None, help=f"of each setting ({_SEEDS})")
    add("--time-limit", type=float, default=60.0, help="seconds for HiGHS (%(default)s)")
    add("--epochs", type=int, default=None, help="of Figure 6's training (40, as in the paper)")


def to_options(parsed: argparse.Namespace) -> Options:
    """What was parsed, checked.

    Raises:
        InputError: naming the option.
    """
    seeds = parsed.seeds if parsed.seeds is not None else _FEW_SEEDS if parsed.quick else _SEEDS
    epochs = parsed.epochs if parsed.epochs is not None else 2 if parsed.quick else 40
    figures.check_option("--seeds", seeds)
    figures.check_option("--epochs", epochs)
    if not parsed.time_limit > 0:
        raise InputError("--time-limit", f"{parsed.time_limit}", "seconds > 0")
    return Options(
        **figures.run_options(parsed),
        seeds=seeds,
        time_limit=parsed.time_limit,
        epochs=epochs,
    )


COMMANDS = figures.Commands(add_options, to_options)
main = COMMANDS.one
