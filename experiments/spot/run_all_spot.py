"""Figures 2, 3 and 5 to 10, the line of progress, what is assumed, the margins and the rest.

    python experiments/spot/run_all_spot.py [--data FOLDER] [--quick] [--only NAME,...]
    python experiments/spot/run_all_spot.py --docs

With --docs nothing is run: the tables of docs/explanation/experiments-spot.md are written anew from
the data in --out.
"""

from pathlib import Path

from auctune.sim.figures import exits, load_figures
from spot_harness.options import COMMANDS

FIGURES = load_figures(
    "fig02_market",
    "fig03_forecasts",
    "fig05_deadlines",
    "fig06_overhead",
    "fig07_availability",
    "fig08_prices",
    "fig09_convergence",
    "fig10_drift",
    "progress_line",
    "ranges",
    "paper_margins",
    "cant_be_late",
    "job_lengths",
    "theorem1",
)
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "experiments-spot.md"


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    COMMANDS.all(FIGURES, PAGE, arguments, __doc__)


if __name__ == "__main__":
    with exits():
        main()
