"""Figures 4 to 13, the sensitivity runs and untuned settings, one after the other.

    python experiments/pdftsp/run_all.py [--quick] [--only NAME,...] [--trace LOG ...]
    python experiments/pdftsp/run_all.py --docs

Results are kept, so a run that was stopped goes on where it was. With --docs nothing is run: the
tables of docs/explanation/experiments-pdftsp.md are written anew from the data in --out.
"""

from pathlib import Path

import fig04_nodes
import fig05_vendors
import fig06_node_types
import fig07_traces
import fig08_load
import fig09_deadlines
import fig10_truthfulness
import fig11_rationality
import fig12_competitiveness
import fig13_time
import sensitivity
import untuned
from auctune.sim.figures import exits
from harness.options import COMMANDS

FIGURES = {
    module.FIGURE.name: module.FIGURE
    for module in (
        fig04_nodes,
        fig05_vendors,
        fig06_node_types,
        fig07_traces,
        fig08_load,
        fig09_deadlines,
        fig10_truthfulness,
        fig11_rationality,
        fig12_competitiveness,
        fig13_time,
        sensitivity,
        untuned,
    )
}
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "experiments-pdftsp.md"


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    COMMANDS.all(FIGURES, PAGE, arguments, __doc__)


if __name__ == "__main__":
    with exits():
        main()
