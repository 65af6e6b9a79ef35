"""Figure 9: welfare by how much time tasks leave."""

import polars as pl
from rich.console import Console

from harness.market import setting
from harness.options import Options
from harness.output import main
from harness.welfare import WelfareFigure, run_figure

FIGURE = WelfareFigure(
    "fig09_deadlines",
    "Figure 9: deadlines",
    "deadlines",
    [setting(kind, {"deadlines": kind}) for kind in ("tight", "medium", "loose")],
)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data."""
    return run_figure(FIGURE, options, console)


if __name__ == "__main__":
    main(run, __doc__)
