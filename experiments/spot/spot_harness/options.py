"""What every figure's command takes."""

import argparse
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from auctune.domain import InputError
from auctune.sim import figures
from spot_harness.markets import Markets, like_records, paper_like, records

OUT = Path("out/experiments/spot")
_FEW_JOBS, _FEW_DAYS = 12, 5


@dataclass(frozen=True, slots=True)
class Options:
    """How a figure is run.

    Attributes:
        out: folder of data, charts and forecasts.
        data: folder with the records of the benchmark market; none: made up like them.
        jobs: tried in each setting.
        seed: of markets and jobs.
        quick: few jobs and days, and no ARIMA, to see that all works.
    """

    out: Path = OUT
    data: Path | None = None
    jobs: int = 1000
    seed: int = 0
    quick: bool = False

    @property
    def forecasts(self) -> Path:
        """Where forecasts are kept."""
        return self.out / "forecasts"

    def all_markets(self) -> tuple[Markets, Markets]:
        """One like the paper's, and the records or what is like them.

        Raises:
            InputError: if a record is missing or wrong.
        """
        return self.paper_markets(), _other_markets(self.data, self.seed, self.quick)

    def paper_markets(self) -> Markets:
        """The one like the paper's alone."""
        return paper_like(self.seed, _FEW_DAYS, 1) if self.quick else paper_like(self.seed)


Figure = figures.Figure[Options]


@cache
def _other_markets(data: Path | None, seed: int, quick: bool) -> Markets:
    if data is not None:
        return records(data)
    return like_records(seed, _FEW_DAYS, 1) if quick else like_records(seed)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that all figures have."""
    add = parser.add_argument
    add("--data", type=Path, help="folder with the benchmark market's files (made up like them)")
    add("--out", type=Path, default=OUT, help="folder for data and charts (%(default)s)")
    add("--jobs", type=int, default=None, help="jobs in each setting (1000)")
    add("--seed", type=int, default=0, help="of markets and jobs (%(default)s)")
    add("--quick", action="store_true", help="few jobs, to see that all works")


def to_options(parsed: argparse.Namespace) -> Options:
    """What was parsed, checked.

    Raises:
        InputError: naming the option.
    """
    jobs = parsed.jobs if parsed.jobs is not None else (_FEW_JOBS if parsed.quick else 1000)
    if jobs < 2:
        raise InputError("--jobs", f"{jobs}", "a whole number >= 2")
    if parsed.seed < 0:
        raise InputError("--seed", f"{parsed.seed}", "a whole number >= 0")
    # A few jobs say nothing of many: their data stand apart.
    out = parsed.out / "quick" if parsed.quick else parsed.out
    return Options(out, parsed.data, jobs, parsed.seed, parsed.quick)


COMMANDS = figures.Commands(add_options, to_options)
main = COMMANDS.one
parse = COMMANDS.parse
