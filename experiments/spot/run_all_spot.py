"""Figures 2, 3 and 5 to 10, what is assumed, and the paper's margins, one after the other.

    python experiments/spot/run_all_spot.py [--data FOLDER] [--quick] [--only NAME,...]
    python experiments/spot/run_all_spot.py --docs

With --docs nothing is run: the tables of docs/explanation/experiments-spot.md are written anew from
the data in --out.
"""

import argparse
from pathlib import Path

from rich.console import Console

import fig02_market
import fig03_forecasts
import fig05_deadlines
import fig06_overhead
import fig07_availability
import fig08_prices
import fig09_convergence
import fig10_drift
import paper_margins
import ranges
from auctune.domain import InputError
from auctune.sim.figures import chosen, exits, write_tables
from spot_harness.options import add_options, to_options

FIGURES = {
    module.FIGURE.name: module.FIGURE
    for module in (
        fig02_market,
        fig03_forecasts,
        fig05_deadlines,
        fig06_overhead,
        fig07_availability,
        fig08_prices,
        fig09_convergence,
        fig10_drift,
        ranges,
        paper_margins,
    )
}
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "experiments-spot.md"


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--only", default="", metavar="NAME,...", help="these figures alone")
    parser.add_argument("--docs", action="store_true", help="write the page's tables, run nothing")
    parsed = parser.parse_args(arguments)
    figures = chosen(FIGURES, parsed.only)
    if parsed.docs:
        if parsed.quick:
            raise InputError("--docs", "is given with --quick", "data of whole runs")
        write_tables(PAGE, parsed.out, figures)
        return
    options, console = to_options(parsed), Console()
    for figure in figures:
        figure.run(options, console)


if __name__ == "__main__":
    with exits():
        main()
