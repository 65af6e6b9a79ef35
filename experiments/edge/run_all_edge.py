"""Figures 3 to 11 of the edge, and prices that learn, one after the other.

    python experiments/edge/run_all_edge.py [--quick] [--only NAME,...]
    python experiments/edge/run_all_edge.py --docs

Figure 6 trains a network. With --docs nothing is run: the tables of
docs/explanation/experiments-edge.md are written anew from the data in --out.
"""

from pathlib import Path

from auctune.sim.figures import exits, load_figures
from edge_harness.options import COMMANDS

FIGURES = load_figures(
    "fig03_testbed_welfare",
    "fig04_testbed_rejected",
    "fig05_testbed_ratio",
    "fig06_training",
    "fig07_utilization",
    "fig08_sites",
    "fig09_jobs",
    "fig10_profit",
    "fig11_price_bases",
    "learned_prices",
)
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "experiments-edge.md"


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    COMMANDS.all(FIGURES, PAGE, arguments, __doc__)


if __name__ == "__main__":
    with exits():
        main()
