"""Figure 5: welfare by the number of vendors that quote for data that need work."""

import polars as pl
from rich.console import Console

from harness.market import setting
from harness.options import Options
from harness.output import main
from harness.welfare import WelfareFigure, run_figure

FIGURE = WelfareFigure(
    "fig05_vendors",
    "Figure 5: number of vendors",
    "vendors",
    [setting(f"{count}", {"num_vendors": f"{count}"}) for count in (1, 2, 4, 6, 8, 10)],
)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data."""
    return run_figure(FIGURE, options, console)


if __name__ == "__main__":
    main(run, __doc__)
