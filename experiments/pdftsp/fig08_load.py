"""Figure 8: welfare by the rate at which bids arrive, as a Poisson process."""

import polars as pl
from rich.console import Console

from harness.market import setting
from harness.options import Options
from harness.output import main
from harness.welfare import WelfareFigure, run_figure

FIGURE = WelfareFigure(
    "fig08_load",
    "Figure 8: bids a slot",
    "mean number of bids a slot",
    [setting(f"{rate}", {"rate": f"{rate}"}) for rate in (30, 50, 80)],
)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data."""
    return run_figure(FIGURE, options, console)


if __name__ == "__main__":
    main(run, __doc__)
