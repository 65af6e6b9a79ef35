"""Tables 1 and 2, Figures 4 to 6 and 8 to 11, other draws of the tables, a hopeless thread.

    python experiments/timeshare/run_all_timeshare.py [--curves DIR] [--quick] [--only NAME,...]
    python experiments/timeshare/run_all_timeshare.py --docs

With --docs nothing is run: the tables of docs/explanation/experiments-timeshare.md are written anew
from the data in --out.
"""

from pathlib import Path

from auctune.sim.figures import exits, load_figures
from timeshare_harness.options import COMMANDS

FIGURES = load_figures(
    "table01_pure",
    "table02_mixed",
    "fig04_bundles",
    "fig05_estimators",
    "fig06_scale",
    "fig08_prediction",
    "fig09_allocation",
    "fig10_fits",
    "fig11_sensitivity",
    "drawn_tables",
    "uncalibrated_tables",
    "hopeless_thread",
)
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "experiments-timeshare.md"


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    COMMANDS.all(FIGURES, PAGE, arguments, __doc__)


if __name__ == "__main__":
    with exits():
        main()
