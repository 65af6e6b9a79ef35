"""Tables 1 and 2, Figures 4 to 6 and 8 to 11, and drawn tables, one after the other.

    python experiments/timeshare/run_all_timeshare.py [--curves DIR] [--quick] [--only NAME,...]
    python experiments/timeshare/run_all_timeshare.py --docs

With --docs nothing is run: the tables of docs/explanation/experiments-timeshare.md are written anew
from the data in --out.
"""

import argparse
from pathlib import Path

from rich.console import Console

import drawn_tables
import fig04_bundles
import fig05_estimators
import fig06_scale
import fig08_prediction
import fig09_allocation
import fig10_fits
import fig11_sensitivity
import table01_pure
import table02_mixed
from auctune.domain import InputError
from auctune.sim.figures import chosen, exits, write_tables
from timeshare_harness.options import add_options, to_options

FIGURES = {
    module.FIGURE.name: module.FIGURE
    for module in (
        table01_pure,
        table02_mixed,
        fig04_bundles,
        fig05_estimators,
        fig06_scale,
        fig08_prediction,
        fig09_allocation,
        fig10_fits,
        fig11_sensitivity,
        drawn_tables,
    )
}
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "experiments-timeshare.md"


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
