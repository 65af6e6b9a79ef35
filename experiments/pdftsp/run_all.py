"""Figures 4 to 13, what is attainable, the mechanism as printed, sensitivity, untuned settings.

    python experiments/pdftsp/run_all.py [--quick] [--only NAME,...] [--trace LOG ...]
    python experiments/pdftsp/run_all.py --docs

Results are kept, so a run that was stopped goes on where it was. With --docs nothing is run: the
tables of docs/explanation/experiments-pdftsp.md are written anew from the data in --out.
"""

from pathlib import Path

from auctune.sim.figures import exits, load_figures
from harness.options import COMMANDS

FIGURES = load_figures(
    "fig04_nodes",
    "fig05_vendors",
    "fig06_node_types",
    "fig07_traces",
    "fig08_load",
    "fig09_deadlines",
    "fig10_truthfulness",
    "fig11_rationality",
    "fig12_competitiveness",
    "fig13_time",
    "attainable",
    "printed",
    "sensitivity",
    "learned_sensitivity",
    "untuned",
)
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "experiments-pdftsp.md"


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    COMMANDS.all(FIGURES, PAGE, arguments, __doc__)


if __name__ == "__main__":
    with exits():
        main()
