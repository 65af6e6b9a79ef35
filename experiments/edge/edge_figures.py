"""Figures 3 to 5 and 7 to 11 of the edge, one after the other.

python experiments/edge/edge_figures.py [--quick] [--only NAME,...]
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

import fig03_testbed_welfare
import fig04_testbed_rejected
import fig05_testbed_ratio
import fig07_utilization
import fig08_sites
import fig09_jobs
import fig10_profit
import fig11_price_bases
from auctune.domain import InputError
from edgelab.options import add_options, to_options

FIGURES = {
    module.FIGURE.name: module.FIGURE
    for module in (
        fig03_testbed_welfare,
        fig04_testbed_rejected,
        fig05_testbed_ratio,
        fig07_utilization,
        fig08_sites,
        fig09_jobs,
        fig10_profit,
        fig11_price_bases,
    )
}


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--only", default="", metavar="NAME,...", help="these figures alone")
    parsed = parser.parse_args(arguments)
    options, console = to_options(parsed), Console()
    wanted = [name for name in parsed.only.split(",") if name] or list(FIGURES)
    for name in wanted:
        if name not in FIGURES:
            raise InputError("--only", f"{name!r} is no figure", f"some of {', '.join(FIGURES)}")
    for name in wanted:
        FIGURES[name].run(options, console)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(2)
