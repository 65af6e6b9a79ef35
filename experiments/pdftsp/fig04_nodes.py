"""Figure 4: welfare by the number of nodes, all A100."""

import polars as pl
from rich.console import Console

from harness.market import setting
from harness.options import Options
from harness.output import main
from harness.welfare import WelfareFigure, run_figure

FIGURE = WelfareFigure(
    "fig04_nodes",
    "Figure 4: number of nodes",
    "nodes",
    [setting(f"{count}", {"nodes": f"a100:{count}"}) for count in (50, 75, 100, 150, 200)],
)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data."""
    return run_figure(FIGURE, options, console)


if __name__ == "__main__":
    main(run, __doc__)
