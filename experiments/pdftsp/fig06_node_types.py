"""Figure 6: welfare by what the nodes are: 50 of one type, or 25 of each."""

import polars as pl
from rich.console import Console

from harness.market import setting
from harness.options import Options
from harness.output import main
from harness.welfare import WelfareFigure, run_figure

FIGURE = WelfareFigure(
    "fig06_node_types",
    "Figure 6: types of 50 nodes",
    "nodes",
    [
        setting("A100", {"nodes": "a100:50"}),
        setting("A40", {"nodes": "a40:50"}),
        setting("A100 and A40", {"nodes": "a100:25,a40:25"}),
    ],
)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data."""
    return run_figure(FIGURE, options, console)


if __name__ == "__main__":
    main(run, __doc__)
